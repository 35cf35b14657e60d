"""Who may start and read: the caps of this process, and the quotas that concern a caller."""

from .caps import Admission, ReaderCaps, TooMany
from .quota_book import Allowed, QuotaBook

__all__ = ["Admission", "Allowed", "QuotaBook", "ReaderCaps", "TooMany"]
