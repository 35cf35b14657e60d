"""Owns what is stored with a response's end: the ended event's payload and the row's figures. Decides no end."""

from collections.abc import Mapping
from typing import Any

from streaming.journal import Tail
from streaming.protocol.end_state import COMPLETED, End
from streaming.protocol.response_stream import ResponseStream
from streaming.store.responses import Ending

from .account import Account
from .figures import Figures


def ending(
    end: End,
    stream: ResponseStream,
    tail: Tail,
    figures: Figures,
    counts: Mapping[str, Any],
    output_error: Mapping[str, str] | None,
    account: Account,
) -> tuple[dict[str, Any], Ending]:
    """Both; ``counts`` are the tokens by what became of them, ``output_error`` what is wrong with an answer of JSON."""
    stop = figures.stop_payload(counts["generated_tokens"], counts["sent_tokens"])
    matched = stream.matched_stop if end.end_state == COMPLETED else None
    row = {
        **counts,
        **figures.gaps(),
        "attempts": account.to_json(),
        "delivered_tokens": tail.noted_tokens,
        "ttft_ms": tail.ttft_ms,
        "output_text": stream.output_text,
        "abort_proven": figures.abort_proven,
        "stop_ms": figures.stop_ms,
        "tokens_after_stop": stop["tokens_after_stop"] if stop else None,
        "usage_estimated": not account.is_exact,
    }
    payload = end.to_payload(counts, stop, matched)
    if output_error is not None:
        payload["output_error"] = dict(output_error)
    return payload, Ending(end, row, account.is_unproven)
