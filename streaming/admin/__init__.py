"""The admin's pages. Looking is allowed; changing only where a page says so."""

from . import (
    api_keys,
    audit,
    batches,
    conversations,
    engines,
    identities,
    invitations,
    ledger,
    people,
    quotas,
    responses,
    service_accounts,
    webhooks,
)

__all__ = [
    "api_keys",
    "audit",
    "batches",
    "conversations",
    "engines",
    "identities",
    "invitations",
    "ledger",
    "people",
    "quotas",
    "responses",
    "service_accounts",
    "webhooks",
]
