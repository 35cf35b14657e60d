"""Owns making an account by oneself: not at all, by anybody, or by invitation, as SIGNUP says. Issues no invitation."""

from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.forms import UserCreationForm
from django.contrib.auth.models import User
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from streaming.audit import note
from streaming.store import invitations

from . import login_tries
from .login import BACKEND


class SignupForm(UserCreationForm):  # type: ignore[type-arg]
    """A name, an address for a new password (optional), a password twice. Nothing else of a user can be set."""

    class Meta:
        model = User
        fields = ["username", "email"]


class _UsedMeanwhile(Exception):
    """Somebody else used the invitation between the look at it and the account."""


@require_http_methods(["GET", "POST"])
def signup(request: HttpRequest, token: str = "") -> HttpResponse:
    """The form, and the account that it makes, logged in. GET uses no invitation up."""
    if not token and settings.SIGNUP != "open":
        raise Http404
    if settings.SIGNUP == "off":
        return render(request, "signup_off.html", status=403)
    if request.user.is_authenticated:
        return redirect(settings.LOGIN_REDIRECT_URL)
    counted = login_tries.A_LINK if token else login_tries.A_SIGNUP
    if not login_tries.is_allowed(request, counted):
        return login_tries.too_many(request, credentials=counted)
    if token and not invitations.is_good(token):
        login_tries.count(request, counted)
        return _used(request)
    form = SignupForm(request.POST or None)
    if not form.is_valid():
        return render(request, "signup.html", {"form": form}, status=200)
    try:
        user = _made(form, token)
    except _UsedMeanwhile:
        return _used(request)
    if not token:
        login_tries.count(request, counted)
    note(request, user, "signed up", user, {"by": "invitation" if token else "oneself"})
    login(request, user, backend=BACKEND)
    return redirect(settings.LOGIN_REDIRECT_URL)


def _made(form: Any, token: str) -> User:
    with transaction.atomic():
        user: User = form.save()
        if token and not invitations.use_up(token, user):
            raise _UsedMeanwhile
    return user


def _used(request: HttpRequest) -> HttpResponse:
    return render(request, "invitation_used.html", status=410)
