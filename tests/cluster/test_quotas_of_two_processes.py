"""The last tokens of a quota, asked for at two web processes on one PostgreSQL: nobody gets them twice."""

import json
from collections import Counter

from tests.books.asking import ask, ask_together, by_window, set_quota
from tests.e2e.reading import chat, eventually

EACH = 20
ROOM = 3


def in_use(site, username: str) -> tuple[int, int]:
    """(streams, tokens of all days) as the next caller finds them."""
    # One statement: in between, what was settled might be folded, and be counted twice or not at all.
    ((streams, windows, settled, back),) = site.rows(
        "SELECT streams, windows, (SELECT COUNT(*) FROM streaming_quotasettlement WHERE use_id = u.id),"
        " (SELECT COALESCE(SUM(tokens), 0) FROM streaming_quotasettlement WHERE use_id = u.id)"
        " FROM streaming_quotause u JOIN streaming_quota q ON q.id = u.quota_id"
        " JOIN auth_user a ON a.id = q.user_id WHERE a.username = ?",
        username,
    )
    return streams - settled, sum(tokens for _, tokens in json.loads(windows)["day"].values()) - int(back)


def is_under_a_quota(site, key: str) -> bool:
    return "x-ratelimit-limit-tokens" in ask(site.url, key, "?", "ticks", max_tokens=1).headers


def test_fifty_at_two_processes_cannot_together_pass_the_last_tokens(both):
    one, two = both
    key = one.manage("create_api_key", "fifty")
    each = ask(one.url, key, "?", "ticks", max_tokens=1).json()["usage"]["prompt_tokens"] + EACH
    # Of one token nobody gets any: nothing is used when fifty come.
    set_quota(one, "fifty", tokens_per_day=1)
    eventually(lambda: all(ask(site.url, key, "?", "ticks", max_tokens=1).status_code == 429 for site in both))
    set_quota(one, "fifty", tokens_per_day=ROOM * each + each - 1)
    answers = ask_together([one.url, two.url], 50, key, "?", "ticks", max_tokens=EACH)
    days = by_window(one, "fifty", "day")
    # Should a day end amid them, the next has room of its own.
    assert max(requests for requests, _ in days) == ROOM
    assert all(tokens == requests * each for requests, tokens in days)
    answered = sum(requests for requests, _ in days)
    assert Counter(answer.status_code for answer in answers) == {200: answered, 429: 50 - answered}
    refused = next(answer for answer in answers if answer.status_code == 429)
    assert refused.json()["error"]["code"] == "rate_limited"
    assert "tokens_per_day: limit" in refused.json()["error"]["message"]
    assert 0 < int(refused.headers["Retry-After"]) <= 86400
    eventually(lambda: in_use(one, "fifty") == (0, answered * each))


def test_what_a_killed_process_had_reserved_is_settled_by_who_ends_it(both):
    one, two = both
    key = one.manage("create_api_key", "limited")
    set_quota(one, "limited", tokens_per_day=10**9)
    eventually(lambda: is_under_a_quota(one, key))
    eventually(lambda: in_use(one, "limited")[0] == 0)
    used = in_use(one, "limited")[1]
    with one.api(key) as client:
        cut = chat(client, "go", model="ticks", max_tokens=5000, until=lambda s: len(s.seqs) >= 5,
                   headers={"X-Disconnect-Policy": "grace=60"})  # fmt: skip
        assert in_use(one, "limited")[0] == 1
        assert in_use(one, "limited")[1] > used + 5000
        one.kill()
    with two.api(key) as client:
        eventually(lambda: two.row(cut.response_id)["epoch"] > 1, 20)
        ended = client.post(f"/v1/responses/{cut.response_id}/cancel").json()
    assert ended["end_state"] == "cancelled"
    row = two.row(cut.response_id)
    assert in_use(two, "limited") == (0, used + row["prompt_tokens"] + row["generated_tokens"])
