"""The responses API on two web processes and PostgreSQL: what one stores, the other fetches, carries on and deletes."""

import openai
import pytest

from tests.e2e.reading import read


@pytest.fixture
def clients(both):
    made = [openai.OpenAI(base_url=f"{site.url}/v1", api_key=site.key, max_retries=0) for site in both]
    yield made
    for client in made:
        client.close()


def test_a_response_of_one_process_is_everything_to_the_other(both, clients):
    here, there = clients
    first = here.responses.create(model="ticks", input="☕", max_output_tokens=15, metadata={"a": "☕"})
    assert there.responses.retrieve(first.id).output_text == first.output_text == "tick tick tick "
    assert there.responses.retrieve(first.id).metadata == {"a": "☕"}
    [item] = there.responses.input_items.list(first.id).data
    assert item.content[0].text == "☕"
    second = there.responses.create(model="ticks", input="?", previous_response_id=first.id, max_output_tokens=5)
    assert second.usage.input_tokens > first.usage.input_tokens
    running = here.responses.create(model="ticks", input="?", background=True)
    events = iter(there.responses.retrieve(running.id, stream=True))
    seen = [next(events) for _ in range(6)]
    assert there.responses.cancel(running.id).status == "cancelled"
    rest = list(here.responses.retrieve(running.id, stream=True, starting_after=seen[-1].sequence_number))
    text = "".join(e.delta for e in [*seen, *rest] if e.type == "response.output_text.delta")
    assert text == both[1].log_text(running.id)
    for response_id in (first.id, second.id, running.id):
        there.responses.delete(response_id)
    for response_id in (first.id, second.id, running.id):
        with pytest.raises(openai.NotFoundError):
            here.responses.retrieve(response_id)
        assert both[0].rows("SELECT COUNT(*) FROM streaming_responseinput WHERE response_id = ?", response_id) == [(0,)]


def test_who_deletes_what_runs_elsewhere_ends_its_readers(both, clients):
    here, there = clients
    running = here.responses.create(model="ticks", input="?", background=True)
    with both[0].api(both[0].key) as api:
        deleted = []

        def once_begun(stream):
            if len(stream.seqs) > 3 and not deleted:
                deleted.append(there.responses.delete(running.id))

        stream = read(api, "GET", f"/v1/responses/{running.id}/stream", until=once_begun)
    assert stream.error or stream.data[-1]["response"]["end_state"] == "cancelled"
