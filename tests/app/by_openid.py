"""Owns the steps of a browser that logs in by the provider of the tests. Judges nothing."""

from urllib.parse import urlsplit

import httpx


def sent_to(visitor, path="/login/oidc/"):
    """Where the site sends a browser that wants to log in."""
    answer = visitor.get(path)
    assert answer.status_code == 302, answer.content
    return answer["Location"]


def through(visitor, path="/login/oidc/"):
    """The provider's answer, as the address that it sends the visitor back to."""
    back = urlsplit(httpx.get(sent_to(visitor, path)).headers["Location"])
    assert (back.netloc, back.path) == ("testserver", "/login/oidc/back/")
    return f"{back.path}?{back.query}"


def log_in(visitor, path="/login/oidc/"):
    return visitor.get(through(visitor, path))


def is_in(visitor):
    return visitor.get("/api/me").status_code == 200


def said(answer):
    return answer.content.decode()
