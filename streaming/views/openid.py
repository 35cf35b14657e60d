"""Owns logging in by the site's OpenID provider: the way there, the way back, who gets an account. Judges no token.

The provider is asked on the event loop, so that one that is slow keeps no thread. Leaving is only leaving here.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from typing import ParamSpec, TypeVar
from urllib.parse import urlencode

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse

from streaming.audit import note
from streaming.openid import NO_PERSONS_FAULT, Attempt, Away, Client, Person, Provider, Refused
from streaming.store import identities

from . import login_tries, openid_attempt
from .login import BACKEND
from .openid_attempt import Begun

logger = logging.getLogger(__name__)

Args = ParamSpec("Args")
Result = TypeVar("Result")
CODE_CHARS_MAX = 4096
RETRY_AFTER_S = 10
#: Why somebody is not in: the status, a title, what to do.
ENDED = 400, "This login is over", "It took longer than ten minutes, was begun in another browser, or is done already."
AWAY = 503, "The login service does not answer", "Wait a minute and try again. Nothing is wrong with your account."
LEFT = 403, "You were not logged in", "The login service was left before it was done."
REFUSED = 403, "The login was not accepted", "What the login service answered could not be trusted. It was noted."
UNKNOWN = 403, "You have no account here yet", "Ask the administrator for one, and say this id:"
DISABLED = 403, "This account is switched off", "The administrator can switch it on again."


async def begin(request: HttpRequest) -> HttpResponse:
    """Send the browser to the provider. A link leads here, for a policy forbids forms that end elsewhere."""
    if (answer := _not_asked(request)) is not None:
        return answer
    attempt = Attempt.begun(request.build_absolute_uri(reverse("openid_back")))
    try:
        address = await _provider().address_for(attempt)
    except Away as away:
        return _away(request, away)
    answer = redirect(address)
    openid_attempt.keep(request, answer, Begun(attempt, openid_attempt.destination(request)))
    return answer


async def back(request: HttpRequest) -> HttpResponse:
    """Whom the provider sends back: only in the browser that began, only once."""
    if (answer := _not_asked(request)) is not None:
        return answer
    begun = openid_attempt.kept(request)
    # RFC 9207: an answer that says whose it is must be our provider's.
    if begun is None or request.GET.get("iss", settings.OIDC_ISSUER) != settings.OIDC_ISSUER:
        return _failed(request, ENDED)
    answer = await _answered(request, begun)
    openid_attempt.forget(answer)
    return answer


async def _answered(request: HttpRequest, begun: Begun) -> HttpResponse:
    code = request.GET.get("code", "")
    if not 1 <= len(code) <= CODE_CHARS_MAX:
        return _without_code(request, begun)
    if not await _in_thread(login_tries.is_allowed, request, login_tries.A_PROVIDER):
        return await _in_thread(login_tries.too_many, request, None, login_tries.A_PROVIDER)
    try:
        person = await _provider().person(code, begun.attempt)
    except Away as away:
        return _away(request, away, begun)
    except Refused as refused:
        logger.warning("a login by the provider was refused: %s", refused)
        await _in_thread(login_tries.count, request, login_tries.A_PROVIDER)
        return _failed(request, REFUSED, begun)
    return await _in_thread(_let_in, request, person, begun)


def _without_code(request: HttpRequest, begun: Begun) -> HttpResponse:
    error = request.GET.get("error", "")[:64]
    if error in NO_PERSONS_FAULT or error == "invalid_request":
        return _away(request, Away(f"it sent the person back with {error!r}"), begun)
    logger.info("the provider let nobody in: %r", error)
    return _failed(request, LEFT, begun)


async def _in_thread(function: Callable[Args, Result], *args: Args.args, **named: Args.kwargs) -> Result:
    return await sync_to_async(function, thread_sensitive=True)(*args, **named)


def _let_in(request: HttpRequest, person: Person, begun: Begun) -> HttpResponse:
    user = identities.user_of(settings.OIDC_ISSUER, person.subject) or _new(request, person)
    if user is None:
        return _failed(request, UNKNOWN, begun, person.subject)
    if not user.is_active:
        return _failed(request, DISABLED, begun)
    login(request, user, backend=BACKEND)
    return HttpResponseRedirect(begun.next_path)  # redirect() would take a bare word for a view's name


def _new(request: HttpRequest, person: Person) -> User | None:
    """The account of somebody who had none, if they may have one."""
    email = person.email if person.email_is_confirmed else ""
    domain = email.rpartition("@")[2].lower()
    if settings.OIDC_ACCOUNTS == "off" or (settings.OIDC_ACCOUNTS == "domains" and domain not in settings.OIDC_DOMAINS):
        return None
    user = identities.make_account(settings.OIDC_ISSUER, person.subject, person.name, email)
    if user is None:  # two tabs at once
        return identities.user_of(settings.OIDC_ISSUER, person.subject)
    note(request, user, "signed up", user, {"by": "openid", "subject": person.subject})
    return user


def _not_asked(request: HttpRequest) -> HttpResponse | None:
    if not settings.OIDC_ISSUER:
        raise Http404
    if request.method != "GET":
        return HttpResponseNotAllowed(["GET"])
    return HttpResponse(status=204) if "prefetch" in request.headers.get("Sec-Purpose", "") else None


def _away(request: HttpRequest, away: Away, begun: Begun | None = None) -> HttpResponse:
    logger.warning("the OpenID provider is away: %s", away)
    answer = _failed(request, AWAY, begun)
    answer.headers["Retry-After"] = str(RETRY_AFTER_S)
    return answer


def _failed(
    request: HttpRequest, why: tuple[int, str, str], begun: Begun | None = None, code: str = ""
) -> HttpResponse:
    status, title, text = why
    path = begun.next_path if begun else openid_attempt.destination(request)
    again = f"{reverse('login')}?{urlencode({'next': path})}"
    shown = {"title": title, "text": text, "code": code, "again": again}
    return render(request, "openid_failed.html", shown, status=status)


def _provider() -> Provider:
    return _provider_of(
        Client(
            settings.OIDC_ISSUER,
            settings.OIDC_CLIENT_ID,
            settings.OIDC_CLIENT_SECRET,
            tuple(settings.OIDC_SCOPES),
            settings.OIDC_CA_FILE,
            settings.OIDC_TIMEOUT_S,
        )
    )


_provider_of = lru_cache(1)(Provider)
