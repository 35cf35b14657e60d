"""Owns how many wrong logins are too many. django-axes counts them in the database, for all processes together.

Counted are a name together with an address, and an address alone. Nothing locks a name everywhere: else anybody
could keep anybody out. Tries that are refused are not counted, so that a lock ends while somebody goes on trying.
"""

from datetime import datetime
from math import ceil
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.handlers.proxy import AxesProxyHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import reverse

from streaming.store import clock

#: Stand for a name where no password is tried; no user can be called so.
A_LINK, A_SIGNUP, A_RESET, A_PROVIDER = (
    {"username": what} for what in ("(a link)", "(a signup)", "(a reset)", "(a provider)")
)


class LoginTries(AxesDatabaseHandler):  # type: ignore[misc]
    """Two counts with a limit each; Axes knows only one limit."""

    def get_user_attempts(self, request: HttpRequest, credentials: Any = None) -> list[QuerySet[Any]]:
        """Tries that still count, by the database's clock: two processes whose clocks are apart would forget each
        other's. One that lies in the future was made before the clock was set back.
        """
        latest = _asked_at(request) + settings.AXES_COOLOFF_TIME
        return [tries.filter(attempt_time__lte=latest) for tries in super().get_user_attempts(request, credentials)]

    def clean_expired_user_attempts(self, request: Any = None, credentials: Any = None) -> int:
        """Forget tries that do not count any more, by that clock too. Whoever comes in or leaves does that to all."""
        _asked_at(request)
        forgotten: int = super().clean_expired_user_attempts(request, credentials)
        return forgotten

    def post_save_access_attempt(self, instance: Any, **saved: Any) -> None:
        """A row that is new has got the time of this process's clock; nobody has seen it yet."""
        if saved["created"]:
            AccessAttempt.objects.filter(pk=instance.pk).update(attempt_time=clock.now())

    def get_failures(self, request: HttpRequest, credentials: Any = None) -> int:
        """Wrong tries, those of the address in units of the limit of a name."""
        of_name, of_address = (_count(tries) for tries in self.get_user_attempts(request, credentials))
        return max(of_name, of_address * settings.LOGIN_TRIES // settings.LOGIN_TRIES_PER_ADDRESS)

    def reset_user_attempts(self, request: HttpRequest, credentials: Any = None) -> int:
        """After a success: only what that name did wrong, or an account of one's own would clear the address."""
        of_name: QuerySet[Any] = self.filter_user_attempts(request, credentials)[0]
        return of_name.delete()[0]

    def opens_at(self, request: HttpRequest, credentials: Any) -> datetime:
        """When the next try is looked at."""
        of_name, of_address = self.get_user_attempts(request, credentials)
        counting = of_name if _count(of_name) >= settings.LOGIN_TRIES else of_address
        newest: datetime | None = counting.aggregate(newest=Max("attempt_time"))["newest"]
        return (newest or _asked_at(request)) + settings.AXES_COOLOFF_TIME


def _asked_at(request: HttpRequest) -> datetime:
    """When the request came, where Axes looks for it."""
    if not hasattr(request, "came_at"):
        request.came_at = request.axes_attempt_time = clock.now()  # type: ignore[attr-defined]
    moment: datetime = request.came_at  # type: ignore[attr-defined]
    return moment


def _count(tries: QuerySet[Any]) -> int:
    return tries.aggregate(count=Sum("failures_since_start"))["count"] or 0


def is_allowed(request: HttpRequest, what: dict[str, str]) -> bool:
    """Whether it may be tried from there."""
    allowed: bool = AxesProxyHandler.is_allowed(request, what)
    return allowed


def count(request: HttpRequest, what: dict[str, str]) -> None:
    """Count a try, without path and query: tokens stand there. This one is answered still; later ones may not be."""
    request.axes_path_info = reverse("login")  # type: ignore[attr-defined]
    asked, request.GET = request.GET, QueryDict()
    AxesProxyHandler.user_login_failed(LoginTries, what, request)
    request.GET = asked
    request.axes_locked_out = False  # type: ignore[attr-defined]


def too_many(request: HttpRequest, refused: HttpResponse | None = None, credentials: Any = None) -> HttpResponse:
    """429, with the seconds after which a try is looked at again. In place of whatever answered a refused try."""
    handler = AxesProxyHandler.get_implementation()
    opens_at = handler.opens_at(request, getattr(request, "axes_credentials", None) or credentials)
    wait_s = max(1, ceil((opens_at - clock.now()).total_seconds()))
    answer = render(request, "too_many_tries.html", {"minutes": ceil(wait_s / 60)}, status=429)
    answer.headers["Retry-After"] = str(wait_s)
    return answer
