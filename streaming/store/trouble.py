"""Owns which errors say that the database is the trouble, and not what it was asked. Handles none."""

from django.db import InterfaceError, InternalError, OperationalError

#: The same may go through later; another error comes again as often as the same is asked. PostgreSQL says
#: InternalError when it has become read-only.
UNAVAILABLE = (OperationalError, InterfaceError, InternalError)
