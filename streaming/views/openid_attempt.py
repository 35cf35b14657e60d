"""Owns what a browser keeps while its person is at the provider: a signed cookie, for minutes. Asks no provider.

Not a session: anybody can begin, and what anybody can begin writes no row.
"""

from dataclasses import asdict, dataclass

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme

from streaming.openid import Attempt

COOKIE = "openid"
#: No other page is sent it.
PATH = "/login/oidc/"
SALT = "streaming.views.openid_attempt"
LIFETIME_S = 600
#: A cookie has 4096 bytes at most.
NEXT_CHARS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt, and where its person goes afterwards."""

    attempt: Attempt
    next_path: str


def destination(request: HttpRequest) -> str:
    """Where ``?next=`` leads, if that is a page of this site by its path; else the chat."""
    said = request.GET.get("next", "")
    is_ours = said.startswith("/") and url_has_allowed_host_and_scheme(
        said, {request.get_host()}, require_https=request.is_secure()
    )
    return said if is_ours and len(said) <= NEXT_CHARS_MAX else settings.LOGIN_REDIRECT_URL


def keep(request: HttpRequest, response: HttpResponse, begun: Begun) -> None:
    """Have the browser keep it; one that was begun before is over."""
    value = signing.dumps({"attempt": asdict(begun.attempt), "next": begun.next_path}, salt=SALT)
    response.set_cookie(
        COOKIE,
        value,
        max_age=LIFETIME_S,
        path=PATH,
        secure=settings.SESSION_COOKIE_SECURE or request.is_secure(),
        httponly=True,
        samesite="Lax",  # the provider sends the browser back from another site
    )


def kept(request: HttpRequest) -> Begun | None:
    """What this browser began and the request is the answer to; None if it is not, or came too late."""
    try:
        read = signing.loads(request.COOKIES.get(COOKIE, ""), salt=SALT, max_age=LIFETIME_S)
    except signing.BadSignature:
        return None
    begun = Begun(Attempt(**read["attempt"]), read["next"])
    return begun if constant_time_compare(request.GET.get("state", ""), begun.attempt.state) else None


def forget(response: HttpResponse) -> None:
    """It was answered, and is worth nothing any more."""
    response.delete_cookie(COOKIE, path=PATH, samesite="Lax")
