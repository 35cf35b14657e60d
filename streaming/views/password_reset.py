"""Owns choosing a new password by a link that was mailed. Django makes and judges the link; nobody learns who exists.

The mail is made and sent on a thread of its own: how long it takes would tell whether there is such an address.
"""

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.forms import PasswordResetForm
from django.contrib.auth.tokens import PasswordResetTokenGenerator
from django.contrib.auth.views import (
    PasswordResetCompleteView,
    PasswordResetConfirmView,
    PasswordResetDoneView,
    PasswordResetView,
)
from django.db import DatabaseError, connection
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils.http import base36_to_int

from streaming import ownership
from streaming.audit import note
from streaming.models import ServiceAccount
from streaming.notify import SIGNED_OUT, Change
from streaming.store import clock

from . import login_tries

logger = logging.getLogger(__name__)

#: One at a time: mail is rare, and a server that hangs must not take threads along.
post = ThreadPoolExecutor(1, thread_name_prefix="mail")


class ResetTokens(PasswordResetTokenGenerator):
    """Django's, by the database's clock. What says that it was made later than now is of a clock that was set back."""

    def check_token(self, user: Any, token: Any) -> bool:
        """Whether the link works."""
        return super().check_token(user, token) and base36_to_int(token.split("-")[0]) <= self._num_seconds(self._now())

    def _now(self) -> datetime:
        return clock.now().replace(tzinfo=None)


tokens = ResetTokens()


class ResetForm(PasswordResetForm):
    """An address; mail only to people who have a password to forget."""

    def get_users(self, email: str) -> Any:
        """Active, with a password, no program."""
        users = list(super().get_users(email))
        programs = set(ServiceAccount.objects.filter(pk__in=[user.pk for user in users]).values_list("pk", flat=True))
        return (user for user in users if user.pk not in programs)

    def save(self, *, request: Any = None, **options: Any) -> None:  # type: ignore[override]  # called by names
        """Look up, write and send elsewhere; the answer waits for nothing of it."""
        options |= {"token_generator": tokens, "domain_override": request.get_host()}
        post.submit(_send, super().save, **options)


def _send(save: Callable[..., None], **options: Any) -> None:
    try:
        save(**options)
    except DatabaseError as error:
        logger.warning("a link for a new password could not be made: %s", error)
    finally:
        connection.close()


class AskView(PasswordResetView):
    """Asking for the link: the answer is the same whoever asks; so many from an address and no more."""

    template_name = "password_reset.html"
    email_template_name = "password_reset_mail.txt"
    form_class = ResetForm

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Counted before anything is looked up."""
        if not login_tries.is_allowed(request, login_tries.A_RESET):
            return login_tries.too_many(request, credentials=login_tries.A_RESET)
        login_tries.count(request, login_tries.A_RESET)
        return super().post(request, *args, **kwargs)


class ChooseView(PasswordResetConfirmView):
    """The new password. With the old one every session ends."""

    template_name = "password_reset_choose.html"
    token_generator = tokens

    def form_valid(self, form: Any) -> HttpResponse:
        """Stored and noted; whose it was stays on the request for whoever closes what is open."""
        answer = super().form_valid(form)
        note(self.request, form.user, "chose a new password", form.user)
        self.request.changed_user_id = form.user.pk  # type: ignore[attr-defined]
        return answer


_ask, _choose = AskView.as_view(), ChooseView.as_view()
sent = PasswordResetDoneView.as_view(template_name="password_reset_sent.html")
done = PasswordResetCompleteView.as_view(template_name="password_reset_done.html")


def ask(request: HttpRequest) -> HttpResponseBase:
    """The form, or whom to ask where the site has no mail."""
    if not settings.PASSWORD_LOGIN:
        raise Http404
    if not settings.EMAIL_HOST:
        return render(request, "password_reset_without_mail.html")
    return _ask(request)


async def choose(request: HttpRequest, uidb64: str, token: str) -> HttpResponseBase:
    """After a change every open page and stream of the user's sessions is closed at once."""
    if not settings.PASSWORD_LOGIN:
        raise Http404
    answer = await sync_to_async(_choose, thread_sensitive=True)(request, uidb64=uidb64, token=token)
    if (user_id := getattr(request, "changed_user_id", None)) is not None:
        ownership.current().changes.announce(user_id, Change(SIGNED_OUT))
        ownership.guards().look_soon()
    return answer
