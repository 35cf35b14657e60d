"""What a stored payload looks like: the JSON that Python writes, whatever its text holds."""

import json

import pytest

from streaming.protocol.events import DELTAS, ENDED, Event
from streaming.store.log import payload_json

TEXTS = ["", " the", '"\\', "\x00\x1f\x7f\n\r\t", "é€☕", "\U0001f600", "\ud83d", "\u2028</script>"]


@pytest.mark.parametrize("kind", [*sorted(DELTAS), ENDED])
@pytest.mark.parametrize("text", TEXTS)
def test_a_payload_is_stored_as_json_dumps_writes_it(kind, text):
    payload = {"text": text}
    assert payload_json(Event(1, 1, kind, payload)) == json.dumps(payload)
