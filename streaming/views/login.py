"""Owns logging in, by password or by a one-time link, and logging out. Issues no link; the provider is openid's."""

from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.views import LoginView, LogoutView
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.shortcuts import redirect, render

from streaming import ownership
from streaming.notify import SIGNED_OUT, Change
from streaming.store import access

from . import login_tries

BACKEND = "streaming.store.sign_in.PeopleBackend"


class LoginForm(LoginView):
    """Django's own: equal time for unknown users, checked redirects, session rotated."""

    template_name = "login.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """With the ways in that there are."""
        return super().get_context_data(**kwargs) | {
            "signup_is_open": settings.SIGNUP == "open",
            "password_login": settings.PASSWORD_LOGIN,
            "openid_label": settings.OIDC_LABEL if settings.OIDC_ISSUER else "",
        }

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """A name and a password, where those count at all."""
        if not settings.PASSWORD_LOGIN:
            raise Http404
        return super().post(request, *args, **kwargs)


login_form = LoginForm.as_view()
_log_out = LogoutView.as_view(next_page=settings.LOGIN_URL)


async def logout(request: HttpRequest) -> HttpResponse:
    """End the session, and have every open page and stream of it closed at once."""
    user_id = await sync_to_async(_user_id, thread_sensitive=True)(request)
    answer: HttpResponse = await sync_to_async(_log_out, thread_sensitive=True)(request)
    ownership.current().changes.announce(user_id, Change(SIGNED_OUT))
    ownership.guards().look_soon()
    return answer


def _user_id(request: HttpRequest) -> int | None:
    return request.user.pk


async def login_link(request: HttpRequest, token: str) -> HttpResponse:
    """Log in by a link that works once. HEAD and prefetching programs do not use it up."""
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    if "prefetch" in request.headers.get("Sec-Purpose", ""):
        return HttpResponse(status=204)
    answer: HttpResponse = await sync_to_async(_log_in, thread_sensitive=True)(request, token)
    return answer


def _log_in(request: HttpRequest, token: str) -> HttpResponse:
    if not login_tries.is_allowed(request, login_tries.A_LINK):
        return login_tries.too_many(request, credentials=login_tries.A_LINK)
    user = access.redeem_login_token(token)
    if user is None:
        login_tries.count(request, login_tries.A_LINK)
        return render(request, "link_used.html", status=410)
    login(request, user, backend=BACKEND)
    return redirect(settings.LOGIN_REDIRECT_URL)
