"""Owns the admin page of identities: which account a person at the OpenID provider has, linking one, unlinking it."""

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest

from streaming.models import Identity

from .audit_trail import Audited
from .read_only import OfferedLookups


class IdentityForm(forms.ModelForm):  # type: ignore[type-arg]
    """Whose, and what the provider calls them. Never a program; a superuser's only by a superuser."""

    who: Any

    class Meta:
        model = Identity
        fields = ["user", "subject"]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        whose = self.fields["user"]
        assert isinstance(whose, forms.ModelChoiceField)
        people = User.objects.filter(service_account__isnull=True)
        whose.queryset = people if self.who.is_superuser else people.filter(is_superuser=False)

    def clean_subject(self) -> str:
        """One that nobody has: an identity is moved by deleting it first, so that both steps are noted."""
        subject: str = self.cleaned_data["subject"]
        if Identity.objects.filter(issuer=settings.OIDC_ISSUER, subject=subject).exists():
            raise forms.ValidationError(f"{subject} has an account already")
        return subject


@admin.register(Identity)
class IdentityAdmin(OfferedLookups, Audited):
    """Deleting one unlinks it: that person gets into the account no more, who is in stays in."""

    list_display = ["user", "subject", "issuer", "created_at", "last_used_at"]
    list_select_related = ["user"]
    search_fields = ["=subject", "user__username"]
    ordering = ["user__username"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Where there is a provider."""
        return bool(settings.OIDC_ISSUER) and super().has_add_permission(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """A superuser's identity is a superuser's to unlink."""
        is_theirs = obj is not None and obj.user.is_superuser and not request.user.is_superuser
        return not is_theirs and super().has_delete_permission(request, obj)

    def get_actions(self, request: HttpRequest) -> Any:
        """None: deleting many at once would not ask whose each is."""
        return {}

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change, **kwargs)
        return type("IdentityForm", (IdentityForm,), {"who": request.user})

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return ["user", "subject"] if obj is None else self.list_display

    def save_model(self, request: HttpRequest, obj: Identity, form: Any, change: bool) -> None:
        obj.issuer = settings.OIDC_ISSUER
        super().save_model(request, obj, form, change)
