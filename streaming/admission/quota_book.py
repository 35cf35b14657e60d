"""Owns which quotas concern a caller, known without asking the database. Counts nothing, as store.quotas does."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from streaming.models import Quota
from streaming.store import quotas, threads
from streaming.store.quotas import Place

#: How long a quota that was made or changed may go unnoticed. Its limits are read anew by every request it concerns.
REFRESH_S = 2.0


@dataclass(frozen=True, slots=True)
class Allowed:
    """What all quotas of a caller together allow. ``models`` is None for every model, ``places`` where to count."""

    places: tuple[Place, ...] = ()
    models: Collection[str] | None = None
    max_output_tokens: int | None = None

    def has(self, model: str) -> bool:
        """Whether the caller may use the model."""
        return self.models is None or model in self.models


EVERYTHING = Allowed()


class QuotaBook:
    """The quotas as they were at the last look. All methods belong to one event loop."""

    def __init__(self) -> None:
        self._of_user: dict[int, Quota] = {}
        self._of_key: dict[int, Quota] = {}
        self._of_member: dict[int, list[Quota]] = {}
        self._looked_at = float("-inf")
        self._looking = asyncio.Lock()

    async def allowed(self, user_id: int | None, api_key_id: int | None) -> Allowed:
        """For a caller whom no quota concerns this is two look-ups in memory, but for one look each REFRESH_S."""
        if time.monotonic() - self._looked_at >= REFRESH_S:
            await self._look()
        if user_id is None:
            return EVERYTHING
        own = [self._of_user.get(user_id), self._of_key.get(api_key_id or 0), *self._of_member.get(user_id, ())]
        concerned = [quota for quota in own if quota is not None]
        return _together(concerned, user_id) if concerned else EVERYTHING

    async def _look(self) -> None:
        async with self._looking:
            if time.monotonic() - self._looked_at < REFRESH_S:
                return
            rows, members = await threads.run(_read)
            self._looked_at = time.monotonic()
        self._of_user = {row.user_id: row for row in rows if row.user_id is not None}
        self._of_key = {row.api_key_id: row for row in rows if row.api_key_id is not None}
        of_group = {row.group_id: row for row in rows if row.group_id is not None}
        of_member: defaultdict[int, list[Quota]] = defaultdict(list)
        for group_id, user_id in members:
            of_member[user_id].append(of_group[group_id])
        self._of_member = dict(of_member)


def _read() -> tuple[list[Quota], list[tuple[int, int]]]:
    rows = quotas.all_quotas()
    return rows, quotas.members_of([row.group_id for row in rows if row.group_id is not None])


def _together(concerned: Iterable[Quota], user_id: int) -> Allowed:
    """The most restrictive wins: models that all allow, the smallest cap."""
    concerned = list(concerned)
    lists = [set(quota.models_allowed) for quota in concerned if quota.models_allowed is not None]
    caps = [quota.max_output_tokens for quota in concerned if quota.max_output_tokens is not None]
    counting = [quota for quota in concerned if quotas.limits_of(quota).is_any]
    return Allowed(
        tuple(sorted((quota.pk, _member(quota, user_id)) for quota in counting)),
        sorted(set.intersection(*lists)) if lists else None,
        min(caps, default=None),
    )


def _member(quota: Quota, user_id: int) -> int:
    return user_id if quota.group_id is not None and not quota.is_shared else 0
