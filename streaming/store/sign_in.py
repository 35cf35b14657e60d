"""Owns which users may log in with a password: active ones who are people. Knows no page."""

from typing import Any

from django.conf import settings
from django.contrib.auth.backends import ModelBackend

from streaming.models import ServiceAccount


class PeopleBackend(ModelBackend):
    """Django's, without the accounts of programs: whatever password somebody gave one, it opens nothing."""

    def authenticate(self, request: Any, username: str | None = None, password: str | None = None, **more: Any) -> Any:
        """After the password: who guesses learns nothing about which accounts are programs. Or nobody."""
        if not settings.PASSWORD_LOGIN:
            return None
        user = super().authenticate(request, username=username, password=password, **more)
        if user is None or ServiceAccount.objects.filter(pk=user.pk).exists():
            return None
        return user
