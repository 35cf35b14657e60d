"""Owns the task that looks at the books. The comparing is ownership's and the store's."""

from streaming.ownership.ledger import reconcile

from .ticks import tick


@tick("streaming.reconcile", every_s=900)
def reconcile_books() -> int:
    """Compare, keep and log. Returns how many comparisons drift."""
    return sum(bool(check.drift) for check in reconcile())
