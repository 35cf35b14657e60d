"""What a caller is told of its limits, in each dialect, and that on SQLite too the last tokens go to nobody twice."""

from collections import Counter

import anthropic
import openai
import pytest

from tests.books.asking import ask, ask_together, by_window, set_quota
from tests.e2e.reading import eventually, script

FIVE = script(outputs=[{"text": "a"}], repeat=5, delay_s=0.02)


@pytest.fixture(scope="module")
def limited(site):
    """A key whose user is under a quota that the site has noticed."""
    key = site.manage("create_api_key", "limited")
    set_quota(site, "limited", tokens_per_minute=10**6, requests_per_minute=500)
    eventually(lambda: "x-ratelimit-limit-tokens" in ask(site.url, key, FIVE, "scripted", max_tokens=1).headers)
    return key


def test_every_answer_tells_what_is_left(site, limited):
    set_quota(site, "limited", tokens_per_minute=10**6, requests_per_minute=500)
    first, second = (ask(site.url, limited, FIVE, "scripted", max_tokens=5).headers for _ in range(2))
    for headers in (first, second):
        assert headers["x-ratelimit-limit-requests"] == "500"
        assert headers["x-ratelimit-limit-tokens"] == "1000000"
        assert headers["x-ratelimit-reset-tokens"].endswith("s")
    left = [int(h["x-ratelimit-remaining-requests"]) for h in (first, second)]
    assert left[1] in (left[0] - 1, 499), "one less, unless a minute has begun"


def test_a_refusal_has_its_dialects_shape_and_the_sdks_do_not_try_again_in_vain(site, limited):
    set_quota(site, "limited", tokens_per_minute=10**6, requests_per_minute=500, tokens_per_day=1)
    mine = openai.OpenAI(base_url=f"{site.url}/v1", api_key=limited, max_retries=3)
    asked = {"model": "scripted", "messages": [{"role": "user", "content": FIVE}], "max_tokens": 5}
    count = "SELECT COUNT(*) FROM streaming_response WHERE end_reason = 'over_quota'"
    before = site.rows(count)[0][0]
    with pytest.raises(openai.RateLimitError, match="tokens_per_day: limit 1, in use") as refused:
        mine.chat.completions.create(**asked)
    assert refused.value.code == "rate_limited"
    assert refused.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.RateLimitError):
        mine.responses.create(model="scripted", input=FIVE, max_output_tokens=5, stream=True)
    theirs = anthropic.Anthropic(base_url=site.url, api_key=limited, max_retries=3)
    with pytest.raises(anthropic.RateLimitError, match="tokens_per_day: limit 1, in use") as refused:
        theirs.messages.create(**asked)
    assert refused.value.response.json()["error"]["type"] == "rate_limit_error"
    headers = refused.value.response.headers
    assert headers["anthropic-ratelimit-requests-limit"] == "500"
    # None is left, unless the day has just begun: then that one.
    assert int(headers["anthropic-ratelimit-tokens-remaining"]) <= 1
    assert headers["anthropic-ratelimit-tokens-reset"].endswith("T00:00:00Z")
    assert "x-ratelimit-limit-requests" not in headers
    assert site.rows(count)[0][0] - before == 3, "each was asked once, and is stored as a refusal"
    mine.close()
    theirs.close()


def test_fifty_at_once_cannot_together_pass_the_last_tokens(site):
    key = site.manage("create_api_key", "fifty")
    each = ask(site.url, key, FIVE, "scripted", max_tokens=5).json()["usage"]["total_tokens"]
    # Of one token nobody gets any: nothing is used when fifty come.
    set_quota(site, "fifty", tokens_per_month=1)
    eventually(lambda: ask(site.url, key, FIVE, "scripted", max_tokens=1).status_code == 429)
    set_quota(site, "fifty", concurrent_streams=100, tokens_per_month=4 * each + 3)
    answers = ask_together([site.url], 50, key, FIVE, "scripted", max_tokens=5)
    months = by_window(site, "fifty", "month")
    # Should a month end amid them, the next has room of its own.
    assert max(requests for requests, _ in months) == 4
    assert all(tokens == requests * each for requests, tokens in months)
    answered = sum(requests for requests, _ in months)
    assert Counter(answer.status_code for answer in answers) == {200: answered, 429: 50 - answered}


def test_a_model_that_is_not_allowed_is_not_listed_and_not_answered(site, limited):
    set_quota(site, "limited", tokens_per_day=None, models_allowed=["smollm2"])

    def listed():
        with site.api(limited) as client:
            return {row["id"] for row in client.get("/v1/models").json()["data"]}

    eventually(lambda: listed() == {"smollm2"})
    refused = ask(site.url, limited, FIVE, "scripted", max_tokens=5)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "model_not_allowed")
    assert "your quota allows smollm2 (got 'scripted')" in refused.json()["error"]["message"]
