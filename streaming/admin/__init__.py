"""The admin's pages. Looking is allowed; changing only where a page says so."""

from django.contrib import admin

from . import api_keys, conversations, engines, responses

admin.site.site_header = admin.site.site_title = "Chat administration"
admin.site.index_title = "What happened, and who may do what"

__all__ = ["api_keys", "conversations", "engines", "responses"]
