"""Owns which class the admin's site is of. Imported before any model is."""

from django.contrib.admin.apps import AdminConfig


class ChatAdminConfig(AdminConfig):
    default_site = "chatsite.admin_site.ChatAdminSite"
