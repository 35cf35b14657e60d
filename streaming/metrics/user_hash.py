"""Owns how logs speak of a user: the same word for the same user, of which nobody without the key can tell whom."""

from functools import lru_cache

from django.utils.crypto import salted_hmac

LENGTH = 16


@lru_cache(maxsize=10_000)
def user_hash(user_id: int | None) -> str | None:
    """An HMAC of the user's id under SECRET_KEY, in hexadecimal; None of nobody."""
    if user_id is None:
        return None
    return salted_hmac("streaming.metrics.user", str(user_id), algorithm="sha256").hexdigest()[:LENGTH]
