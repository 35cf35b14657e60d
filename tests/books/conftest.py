"""Owns what the tests of quotas, prices, webhooks and the ledger share: that of the stream tests, and one's use."""

import pytest

from streaming.models import Quota, QuotaSettlement, QuotaUse
from streaming.store.quota_windows import Used
from tests.engine.conftest import demo_tokenizer, worker_url  # noqa: F401 fixtures
from tests.stream.conftest import _database, bench, engine, row, successor, user  # noqa: F401 fixtures


def tokens_in_use(quota: Quota, kind: str = "day", member: int = 0) -> int:
    """What the next caller finds: counted, less what was given back and has yet to be folded in."""
    use = QuotaUse.objects.get(quota=quota, member=member)
    used = Used(use.streams, use.windows)
    for back in QuotaSettlement.objects.filter(use_id=use.pk):
        used.give_back(back.at_s, back.requests, back.tokens)
    return sum(tokens for _, tokens in used.windows.get(kind, {}).values())


def streams_in_use(quota: Quota) -> int:
    use = QuotaUse.objects.get(quota=quota)
    return use.streams - QuotaSettlement.objects.filter(use_id=use.pk).count()


@pytest.fixture
def limited(user):  # noqa: F811
    """Makes quotas of the user."""

    def make(**limits) -> Quota:
        return Quota.objects.create(user=user, **limits)

    return make
