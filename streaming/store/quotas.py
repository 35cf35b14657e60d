"""Owns reserving what a response may use before it is stored, and giving back at its end what it did not.

Reserving locks the rows of use; the end only adds rows, so a commit of the journal never waits for a caller.
Decides no limit itself: streaming.store.quota_windows does.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import User
from django.db import connection

from streaming.models import Quota, QuotaSettlement, QuotaUse
from streaming.protocol.end_state import ABANDONED, CANCELLED, COMPLETED

from . import clock as database_clock
from .quota_windows import DAY, MINUTE, MONTH, Full, Limits, Used, fitting, left, tightest

#: A place where something is counted: a quota, and the member where each has the whole of it (else 0).
Place = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request asks of quotas: ``places`` are those that concern its caller.

    The answer gets at least ``least_tokens``: all it was asked for where the caller said so, or else what is left.
    """

    places: Sequence[Place]
    least_tokens: int


class OverQuota(Exception):
    """A quota has no room for the request. ``left`` is what the caller is told of its limits."""

    def __init__(self, full: Full, left: Mapping[str, Mapping[str, Any]]):
        super().__init__(full.message)
        self.full = full
        self.left = left


def all_quotas() -> list[Quota]:
    """Every row; there are few."""
    return list(Quota.objects.order_by("id"))


def members_of(group_ids: Sequence[int]) -> list[tuple[int, int]]:
    """(group, user) of these groups."""
    if not group_ids:
        return []
    through = User.groups.through.objects.filter(group_id__in=group_ids)
    return list(through.values_list("group_id", "user_id"))


def limits_of(quota: Quota) -> Limits:
    """What of a quota is counted."""
    return Limits(
        quota.concurrent_streams,
        quota.requests_per_minute,
        quota.tokens_per_minute,
        quota.tokens_per_day,
        quota.tokens_per_month,
    )


def reserve(
    claim: Claim, prompt_tokens: int, most_tokens: int, clock: Callable[[], float] | None = None
) -> dict[str, Any] | None:
    """Take prompt and answer from every quota of the claim, inside the transaction that stores the response.

    Returns what the row keeps of it, ``answer_tokens`` being what was granted; None where no quota is left by now.
    Raises OverQuota. ``clock`` gives seconds since 1970; without it the database's does.
    """
    uses = _locked(claim.places)
    if not uses:
        return None
    now_s = clock() if clock else database_clock.now_s()
    rows = [(use, limits_of(use.quota), Used(use.streams, use.windows)) for use in uses]
    _fold(rows)
    answer = most_tokens
    fulls = []
    for _, limits, used in rows:
        fits = fitting(limits, used, now_s, prompt_tokens, answer, min(claim.least_tokens, answer))
        if isinstance(fits, Full):
            fulls.append(fits)
        else:
            answer = fits
    if fulls:
        worst = max(fulls, key=lambda full: float("inf") if full.retry_after_s is None else full.retry_after_s)
        raise OverQuota(worst, tightest([left(limits, used, now_s) for _, limits, used in rows]))
    tokens = prompt_tokens + answer
    for use, _, used in rows:
        used.take(now_s, tokens)
        use.streams, use.windows = used.streams, used.windows
        use.save(update_fields=["streams", "windows"])
    return {
        "uses": [use.pk for use in uses],
        "at_s": int(now_s),
        "tokens": tokens,
        "answer_tokens": answer,
        "left": tightest([left(limits, used, now_s) for _, limits, used in rows]),
    }


def _locked(places: Sequence[Place]) -> list[QuotaUse]:
    """The rows of use, in one order for all callers; those of quotas that are gone by now are missing."""
    known = set(Quota.objects.filter(id__in={quota_id for quota_id, _ in places}).values_list("id", flat=True))
    wanted = {place for place in places if place[0] in known}
    uses = _lock(wanted)
    missing = wanted - {(use.quota_id, use.member) for use in uses}
    if missing:
        fresh = [QuotaUse(quota_id=quota_id, member=member) for quota_id, member in sorted(missing)]
        QuotaUse.objects.bulk_create(fresh, ignore_conflicts=True)
        uses = _lock(wanted)
    return uses


def _lock(places: set[Place]) -> list[QuotaUse]:
    rows = QuotaUse.objects.filter(quota_id__in={q for q, _ in places}, member__in={m for _, m in places})
    rows = rows.select_related("quota").select_for_update(of=("self",)).order_by("id")
    return [use for use in rows if (use.quota_id, use.member) in places]


def _fold(rows: Sequence[tuple[QuotaUse, Limits, Used]]) -> None:
    """Take in what ended responses gave back since somebody last held these rows."""
    by_use = {use.pk: used for use, _, used in rows}
    marks = ", ".join(["%s"] * len(by_use))
    with connection.cursor() as cursor:
        cursor.execute(
            f"DELETE FROM streaming_quotasettlement WHERE use_id IN ({marks})"  # noqa: S608 marks only
            " RETURNING use_id, at_s, requests, tokens",
            list(by_use),
        )
        for use_id, at_s, requests, tokens in cursor.fetchall():
            by_use[use_id].give_back(at_s, requests, tokens)


def charged(end_state: str, was_taken: bool, prompt_tokens: int, generated_tokens: int) -> int:
    """What an ended response pays: prompt and answer, as far as the engine made it.

    Nothing where no engine took it, and nothing for a failure that came before the first token.
    """
    asked_for = end_state in (COMPLETED, CANCELLED, ABANDONED)
    return prompt_tokens + generated_tokens if generated_tokens or (was_taken and asked_for) else 0


def settle(reserved: Mapping[str, Any], paid_tokens: int) -> None:
    """Give back what was not used, in the transaction of the end and only by who set it."""
    given_back = (int(reserved["at_s"]), 0 if paid_tokens else 1, int(reserved["tokens"]) - paid_tokens)
    with connection.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO streaming_quotasettlement (use_id, at_s, requests, tokens) VALUES (%s, %s, %s, %s)",
            [(use_id, *given_back) for use_id in reserved["uses"]],
        )


def in_use(quota: Quota, now_s: float) -> list[tuple[int, str]]:
    """(member, what of the quota is in use), for people; member 0 where it is not one for each of a group."""
    found = []
    for use in quota.uses.order_by("member"):
        used = Used(use.streams, use.windows)
        for back in QuotaSettlement.objects.filter(use_id=use.pk):
            used.give_back(back.at_s, back.requests, back.tokens)
        windows = ((kind, *used.of(kind, now_s)) for kind in (MINUTE, DAY, MONTH))
        told = ", ".join(f"{requests} requests and {tokens} tokens this {kind}" for kind, requests, tokens in windows)
        found.append((use.member, f"{used.streams} streams, {told}"))
    return found


def with_answer(request: Mapping[str, Any], reserved: Mapping[str, Any] | None) -> dict[str, Any]:
    """The request as it is stored: the answer has no more tokens than were granted."""
    if reserved is None:
        return dict(request)
    return {**request, "max_tokens": min(request["max_tokens"], reserved["answer_tokens"])}
