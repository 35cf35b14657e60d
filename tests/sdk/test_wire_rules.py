"""The wire rules that SDKs taught: what each of them makes of heartbeats, ids and long lines, in one process each."""

import anthropic
import httpx
import httpx2
import openai
import pytest

from streaming.protocol.dialects import ANTHROPIC, OPENAI_CHAT, OPENAI_RESPONSES
from streaming.protocol.sse import HEARTBEAT
from tests.e2e.reading import script
from tests.protocol.sample_events import encoded, log

EXOTIC = "a\u2028b\u0085c\u000bd☕" + "x" * 100_000
LOG = log(["one ", EXOTIC, " two"])
ANSWER = {"headers": {"content-type": "text/event-stream"}}


def with_heartbeats(raw):
    """One before everything, and one behind every frame, with an id or without."""
    return HEARTBEAT + b"".join(frame + b"\n\n" + HEARTBEAT for frame in raw.split(b"\n\n")[:-1])


def read_chat(raw):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=raw, **ANSWER))
    client = openai.OpenAI(api_key="k", base_url="http://t/v1", http_client=httpx.Client(transport=transport))
    chunks = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "?"}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)


def read_responses(raw):
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=raw, **ANSWER))
    client = openai.OpenAI(api_key="k", base_url="http://t/v1", http_client=httpx.Client(transport=transport))
    events = client.responses.create(model="m", input="?", stream=True)
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


def read_messages(raw):
    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=raw, **ANSWER))
    client = anthropic.Anthropic(api_key="k", base_url="http://t", http_client=httpx2.Client(transport=transport))
    asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "?"}]}
    with client.messages.stream(**asked) as stream:
        return "".join(stream.text_stream)


@pytest.mark.parametrize(
    ("dialect", "read"),
    [(OPENAI_CHAT, read_chat), (OPENAI_RESPONSES, read_responses), (ANTHROPIC, read_messages)],
)
def test_heartbeats_exotic_line_ends_and_long_lines_disturb_no_sdk(dialect, read):
    assert read(with_heartbeats(encoded(dialect, LOG, sizes=(1, 2)))) == f"one {EXOTIC} two"


def test_a_heartbeat_that_comes_before_the_first_event_disturbs_none_on_the_real_wire(place):
    """The 200 goes out after two seconds; the comment that carries it is the first that a reader sees."""
    slow = script(outputs=[{"text": "late"}], first_delay_s=2.2)
    asked = {"model": "tests-judged", "messages": [{"role": "user", "content": slow}]}
    with openai.OpenAI(base_url=place.url, api_key=place.key, max_retries=0) as client:
        chunks = list(client.chat.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "late"
    with (
        anthropic.Anthropic(base_url=place.site.url, api_key=place.key, max_retries=0) as client,
        client.messages.stream(**asked, max_tokens=9) as stream,
    ):
        assert "".join(stream.text_stream) == "late"
