"""Who leaves at the worst moment: what was asked is done, what nobody waits for is not left running."""

import json
import socket

import pytest

from tests.e2e.reading import chat, eventually, read, script

ENDLESS = script(outputs=[{"text": "tick "}], repeat=0, delay_s=0.01)


def posted(site, key, path, body, headers=()) -> socket.socket:
    """A connection on which a whole request was sent and nothing was read."""
    data = json.dumps(body).encode()
    more = "".join(f"{name}: {value}\r\n" for name, value in dict(headers).items()).encode()
    connection = socket.create_connection(("127.0.0.1", site.port))
    connection.sendall(
        b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Authorization: Bearer %s\r\n%sContent-Length: %d\r\n\r\n%s"
        % (path.encode(), key.encode(), more, len(data), data)
    )
    return connection


def test_a_stop_counts_although_who_pressed_it_is_gone_at_once(site, api, key):
    for _ in range(10):
        running = chat(api, ENDLESS, headers={"X-Disconnect-Policy": "background"}, until=lambda s: len(s.seqs) >= 2)
        posted(site, key, f"/v1/responses/{running.response_id}/cancel", {}).close()
        row = eventually(lambda rid=running.response_id: (r := site.row(rid))["end_state"] and r)
        assert (row["end_state"], row["end_reason"]) == ("cancelled", "api")


@pytest.mark.parametrize("stream", [True, False])
def test_a_request_whose_client_is_gone_before_it_is_stored_does_not_run_for_ever(site, api, key, stream):
    whole = chat(api, script(outputs=[{"text": "a"}]))
    body = {"model": "scripted", "stream": stream, "messages": [{"role": "user", "content": ENDLESS}]}
    newer = ("SELECT end_state, end_reason FROM streaming_response WHERE id > ?", whole.response_id)
    with site.database.locked():
        for _ in range(3):
            posted(site, key, "/v1/chat/completions", body).close()
        # Reading is not locked, and its answer comes after those requests have been taken in.
        assert read(api, "GET", f"/v1/responses/{whole.response_id}/stream").is_done
    ended = [("abandoned", "disconnected")] * 3
    eventually(lambda: site.rows(*newer) == ended)
