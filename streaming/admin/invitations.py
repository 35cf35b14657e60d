"""Owns the admin page of invitations: who invited whom, making one, taking one back. A link is shown once."""

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse

from streaming.models import Invitation
from streaming.store import invitations

from .audit_trail import Audited


class InvitationForm(forms.ModelForm):  # type: ignore[type-arg]
    """For whom and for how long."""

    days = forms.IntegerField(min_value=1, max_value=invitations.DAYS_MAX, initial=7)

    class Meta:
        model = Invitation
        fields = ["note"]

    def clean(self) -> None:
        """Not where nobody could use it."""
        if settings.SIGNUP == "off":
            raise forms.ValidationError("SIGNUP is off: nobody can use an invitation; set it to invite or open")


@admin.register(Invitation)
class InvitationAdmin(Audited):
    """Deleting one takes it back; the account that it made stays."""

    list_display = ["id", "note", "created_by", "created_at", "expires_at", "used_at", "used_by"]
    list_select_related = ["created_by", "used_by"]
    list_filter = [("used_at", admin.EmptyFieldListFilter)]
    ordering = ["-created_at"]
    form = InvitationForm
    fields = ["note", "days"]

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        return self.fields if obj is None else self.list_display

    def save_model(self, request: HttpRequest, obj: Invitation, form: Any, change: bool) -> None:
        lifetime = timedelta(days=form.cleaned_data["days"])
        assert request.user.is_authenticated
        made, request.made_token = invitations.issue(request.user, lifetime, obj.note)  # type: ignore[attr-defined]
        obj.pk = made.pk

    def response_add(self, request: HttpRequest, obj: Invitation, post_url_continue: Any = None) -> HttpResponse:
        """The link itself, in this answer only."""
        path = reverse("invitation", args=[request.made_token])  # type: ignore[attr-defined]
        context = self.admin_site.each_context(request) | {
            "title": "A new invitation",
            "link": request.build_absolute_uri(path),
            "row": obj,
            "opts": self.opts,
        }
        return TemplateResponse(request, "admin/chat/new_invitation.html", context)
