"""Owns the table of what callers of the responses API sent, where it is kept. Answers stand in their responses."""

from django.db import models

from .response import Response


class ResponseInput(models.Model):
    """One response's input: to be listed again, and for the responses that build on it.

    ``items`` are the wire's, with ids; ``turns`` the same as a chat template takes them; ``asked`` the fields that the
    response object repeats. ``previous`` names the response before it, which may be gone by now.
    """

    response = models.OneToOneField(Response, on_delete=models.CASCADE, primary_key=True, related_name="input")
    previous = models.CharField(max_length=40, blank=True)
    items = models.JSONField()
    turns = models.JSONField()
    asked = models.JSONField()
