"""What a client of the bench says of its stream is true, however the bytes come; so are the requests it sends."""

import pytest

from bench.client import StreamClient
from bench.wires import Address, reading

ADDRESS = Address("127.0.0.1", 80)


def read_in(pieces, wire, tokens):
    client = StreamClient(wire, b"", tokens)
    for piece in pieces:
        client.data_received(piece)
    return client


def test_an_answer_cut_at_any_byte_is_the_same_answer(wire, answer):
    whole = answer(3)
    for cut in range(len(whole) + 1):
        client = read_in([whole[:cut], whole[cut:]], wire, 3)
        assert client.ended.is_set()
        assert client.record.failure is None
        assert (client.record.tokens, client.record.last_event_id) == (3, "resp_1:1.2")


@pytest.mark.parametrize("tokens", [2, 4])
def test_one_word_too_many_or_too_few_is_a_failure(wire, answer, tokens):
    assert read_in([answer(3)], wire, tokens).record.failure == f"3 of {tokens} tokens arrived"


def test_an_end_of_the_connection_is_no_end_of_the_answer(wire, answer):
    client = read_in([answer(3, done=False)], wire, 3)
    assert not client.ended.is_set()
    client.connection_lost(None)
    assert client.record.failure.startswith("cut without the end")


def test_a_refusal_is_a_failure_that_keeps_its_status(wire, error_answer):
    client = read_in([error_answer], wire, 3)
    assert client.status == 503
    assert client.record.failure.startswith("HTTP 503")
    assert client.streaming.is_set()


def test_who_comes_back_names_the_last_event_and_who_reads_anew_does_not(wire):
    again = reading(wire, "resp_1:2.30", ADDRESS, from_start=False)
    assert again.startswith(b"GET /v1/responses/resp_1/stream HTTP/1.1\r\n")
    assert b"\r\nLast-Event-ID: resp_1:2.30\r\n" in again
    assert b"Last-Event-ID" not in reading(wire, "resp_1:2.30", ADDRESS, from_start=True)
