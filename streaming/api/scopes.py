"""Owns which scope a request of /v1 needs. Who has which scopes stands in the key's row; nobody is asked here."""

from streaming.models import ApiKey
from streaming.models.access import MODELS_READ, RESPONSES_READ, RESPONSES_WRITE

from .errors import ApiError

#: Reading one of these is not reading answers.
OF_MODELS = "/v1/models"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


def needed(method: str, path: str) -> str:
    """The scope for it. A path that this does not name is as guarded as an answer: no route can be forgotten."""
    if method not in SAFE_METHODS:
        return RESPONSES_WRITE
    return MODELS_READ if path == OF_MODELS or path.startswith(f"{OF_MODELS}/") else RESPONSES_READ


def lacking(api_key: ApiKey, method: str, path: str) -> ApiError | None:
    """The refusal, where the key does not have what the request needs."""
    scope = needed(method, path)
    if scope in api_key.scopes.split():
        return None
    return ApiError(403, f"this API key lacks the scope {scope}; it has {api_key.scopes}", code="scope")
