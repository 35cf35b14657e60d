"""Owns the admin page of API keys: who has which, making one, revoking. A key is shown once, its hash never."""

from datetime import date
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from streaming.audit import note
from streaming.models import ApiKey
from streaming.models.access import SCOPES
from streaming.store import access

from .read_only import ReadOnlyAdmin
from .used import used_lately


class NewKeyForm(forms.ModelForm):  # type: ignore[type-arg]
    """A key for a service account or for oneself: one for somebody else would let staff act in their name."""

    scopes = forms.MultipleChoiceField(
        choices=[(scope, scope) for scope in SCOPES], initial=list(SCOPES), widget=forms.CheckboxSelectMultiple
    )
    expires_on = forms.DateField(required=False, help_text="it works until the beginning of this day (UTC)")
    who: Any

    class Meta:
        model = ApiKey
        fields = ["user", "name"]

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        whose = self.fields["user"]
        assert isinstance(whose, forms.ModelChoiceField)
        whose.queryset = User.objects.filter(Q(service_account__isnull=False) | Q(pk=self.who.pk), is_active=True)

    def clean_expires_on(self) -> date | None:
        """A day to come."""
        day: date | None = self.cleaned_data["expires_on"]
        if day is not None and day <= timezone.now().date():
            raise forms.ValidationError(f"a day to come, not {day}")
        return day

    def clean(self) -> None:
        """Room for one more, which nobody else takes until this page's transaction ends."""
        user = self.cleaned_data.get("user")
        try:
            if user is not None:
                access.check_room(user)
        except access.TooManyKeys as error:
            raise forms.ValidationError({"user": str(error)}) from None


@admin.register(ApiKey)
class ApiKeyAdmin(ReadOnlyAdmin):
    """Keys by their first characters."""

    list_display = ["prefix", "name", "user", "scopes", "created_at", "last_used_at", "expires_at", "revoked_at"]
    list_select_related = ["user"]
    list_filter = [("revoked_at", admin.EmptyFieldListFilter), "created_at"]
    search_fields = ["^prefix", "name", "user__username"]
    ordering = ["-created_at"]
    fields = ["prefix", "name", "user", "scopes", "used", "created_at", "last_used_at", "expires_at", "revoked_at"]
    readonly_fields = ["used"]
    actions = ["revoke"]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Whoever may, in the rights of the role; never for somebody else's account."""
        return request.user.has_perm("streaming.add_apikey")

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        if obj is not None:
            return super().get_form(request, obj, change, **kwargs)
        return type("NewKeyForm", (NewKeyForm,), {"who": request.user})

    def get_fieldsets(self, request: HttpRequest, obj: Any = None) -> Any:
        if obj is not None:
            return super().get_fieldsets(request, obj)
        return [(None, {"fields": ["user", "name", "scopes", "expires_on"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return () if obj is None else super().get_readonly_fields(request, obj)

    def save_model(self, request: HttpRequest, obj: ApiKey, form: Any, change: bool) -> None:
        said = form.cleaned_data
        made, key = access.new_key(obj.user, obj.name, access.until(said["expires_on"]), said["scopes"])
        obj.pk, obj.prefix, obj.scopes = made.pk, made.prefix, made.scopes
        request.made_key = key  # type: ignore[attr-defined]

    def log_addition(self, request: HttpRequest, obj: ApiKey, message: Any) -> Any:
        """In the audit log, not in Django's own."""
        note(request, request.user, "added", obj, {"name": str(obj), "scopes": obj.scopes})

    def response_add(self, request: HttpRequest, obj: ApiKey, post_url_continue: Any = None) -> HttpResponse:
        """The key itself, in this answer only: messages of the admin would put it into a cookie."""
        context = self.admin_site.each_context(request) | {
            "title": "A new API key",
            "key": request.made_key,  # type: ignore[attr-defined]
            "row": obj,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/chat/new_key.html", context)

    @admin.action(description="Revoke the selected keys", permissions=["revoke"])
    def revoke(self, request: HttpRequest, queryset: QuerySet[ApiKey]) -> None:
        """From the next request on they are refused."""
        keys = list(queryset)
        count = access.revoke_keys([key.pk for key in keys])
        for key in keys:
            note(request, request.user, "revoked", key, {"name": str(key)})
        self.message_user(request, f"{count} key(s) revoked.", messages.SUCCESS)

    def has_revoke_permission(self, request: HttpRequest) -> bool:
        """Whoever may change keys; the form itself stays read-only."""
        return request.user.has_perm("streaming.change_apikey")

    @admin.display(description="last 30 days")
    def used(self, key: ApiKey) -> SafeString:
        """Sums of the daily rollups, and the way to the responses."""
        link = f"{reverse('admin:streaming_response_changelist')}?key={key.prefix}"
        return format_html('{} · <a href="{}">Responses</a>', used_lately(api_key_id=key.pk), link)
