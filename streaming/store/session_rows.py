"""Owns until when a session counts: by the database's clock, as all credentials do. All else of sessions is Django's.

Django judges by the clock of the process that is asked. One that was set back lets in who has been out since; one that
was ahead leaves sessions that would count for as long.
"""

from datetime import timedelta
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.sessions.backends.db import SessionStore as DjangoStore
from django.contrib.sessions.models import Session
from django.db.models import Q
from django.db.models.functions import Now

from . import clock

#: A moment in a statement has fewer digits than one that was stored, and a standby's clock may be a little behind.
TOLERANCE = timedelta(minutes=1)


def unexpired() -> Q:
    """Which rows count. One that would count for longer than any does is of a clock that was set back."""
    latest = Now() + timedelta(seconds=settings.SESSION_COOKIE_AGE) + TOLERANCE
    return Q(expire_date__gt=Now(), expire_date__lte=latest)


class SessionStore(DjangoStore):
    """Named as Django's, for the name is part of what rows are signed with."""

    def _get_session_from_db(self) -> Session | None:
        return self._known(Session.objects.filter(unexpired(), session_key=self.session_key).first())

    async def _aget_session_from_db(self) -> Session | None:
        return self._known(await Session.objects.filter(unexpired(), session_key=self.session_key).afirst())

    def _known(self, row: Session | None) -> Session | None:
        if row is None:
            self._session_key = None
        return row

    def get_expiry_date(self, **known: Any) -> Any:
        """From now, unless somebody names the moment to count from."""
        return super().get_expiry_date(**{"modification": clock.now(), **known})

    async def aget_expiry_date(self, **known: Any) -> Any:
        """As ``get_expiry_date``."""
        return await super().aget_expiry_date(**{"modification": await sync_to_async(clock.now)(), **known})
