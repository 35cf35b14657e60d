"""Owns setting quotas of a running site and asking it by many at once. Judges nothing."""

import json
from concurrent.futures import ThreadPoolExecutor

import httpx


def set_quota(site, username: str, **limits) -> None:
    """The user's one quota; what was used of it stays used."""
    site.manage(
        "shell", "-v", "0", "-c",
        "import json; from streaming.models import Quota; from django.contrib.auth.models import User;"
        f" user = User.objects.get(username={username!r});"
        f" Quota.objects.update_or_create(user=user, defaults=json.loads({json.dumps(limits)!r}))",
    )  # fmt: skip


def by_window(site, username: str, kind: str) -> list[tuple[int, int]]:
    """Requests and tokens in each minute, day or month in which the user's quota was used, what was given back aside.

    So what is said of every window holds also where one ended meanwhile.
    """
    ((windows,),) = site.rows(
        "SELECT windows FROM streaming_quotause u JOIN streaming_quota q ON q.id = u.quota_id"
        " JOIN auth_user a ON a.id = q.user_id WHERE a.username = ?",
        username,
    )
    return [(requests, tokens) for requests, tokens in json.loads(windows)[kind].values()]


def ask(url: str, key: str, content: str, model: str, **fields) -> httpx.Response:
    """A chat completion that does not stream."""
    body = {"model": model, "messages": [{"role": "user", "content": content}], **fields}
    return httpx.post(f"{url}/v1/chat/completions", json=body, headers={"Authorization": f"Bearer {key}"}, timeout=60)


def ask_together(urls: list[str], count: int, *arguments, **fields) -> list[httpx.Response]:
    """So many at once, spread over the addresses."""
    with ThreadPoolExecutor(count) as pool:
        futures = [pool.submit(ask, urls[n % len(urls)], *arguments, **fields) for n in range(count)]
        return [future.result() for future in futures]
