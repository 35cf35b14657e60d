"""Owns the task that looks at the books. The comparing is ownership's and the store's."""

from celery import shared_task

from streaming.ownership.ledger import reconcile


@shared_task(name="streaming.reconcile")
def reconcile_books() -> int:
    """Compare, keep and log. Returns how many comparisons drift."""
    return sum(bool(check.drift) for check in reconcile())
