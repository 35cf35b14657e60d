"""Owns the admin page of service accounts: users that are programs. Their keys are made on the page of keys."""

from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils.html import format_html
from django.utils.safestring import SafeString

from streaming.models import ServiceAccount
from streaming.store import access

from .audit_trail import Audited


class ServiceAccountForm(forms.ModelForm):  # type: ignore[type-arg]
    """A name that nobody has yet."""

    username = forms.CharField(max_length=150, validators=User._meta.get_field("username").validators)

    class Meta:
        model = ServiceAccount
        fields = ["purpose"]

    def clean_username(self) -> str:
        """A new user: a person's account never becomes a program's."""
        username: str = self.cleaned_data["username"]
        if User.objects.filter(username=username).exists():
            raise forms.ValidationError(f"there is a user {username} already")
        return username


@admin.register(ServiceAccount)
class ServiceAccountAdmin(Audited):
    """It goes with its user, and is switched off there too."""

    list_display = ["user", "purpose", "created_at", "is_active"]
    list_select_related = ["user"]
    search_fields = ["user__username", "purpose"]
    ordering = ["user__username"]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        return super().get_form(request, obj, change, **kwargs) if change else ServiceAccountForm

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["username", "purpose"] if obj is None else ["user_link", "purpose", "created_at"]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else ("user_link", "created_at")

    def save_model(self, request: HttpRequest, obj: ServiceAccount, form: Any, change: bool) -> None:
        if not change:
            obj.user = access.ensure_user(form.cleaned_data["username"])
        super().save_model(request, obj, form, change)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Without this row its user would be a person."""
        return False

    @admin.display(description="active", boolean=True)
    def is_active(self, account: ServiceAccount) -> bool:
        """Whether its keys work."""
        return account.user.is_active

    @admin.display(description="user")
    def user_link(self, account: ServiceAccount) -> SafeString:
        """To switch it off, or give it quotas."""
        return format_html('<a href="/admin/auth/user/{}/change/">{}</a>', account.pk, account.user.get_username())
