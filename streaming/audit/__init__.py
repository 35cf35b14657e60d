"""Who did what, from where: noting it in the audit log, for pages, API and admin alike. Shows and refuses nothing."""

from .noting import note

__all__ = ["note"]
