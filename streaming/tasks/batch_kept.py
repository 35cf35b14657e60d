"""Owns answers of a batch that are there although no worker wrote them: it was killed, or had no right to ask for them.

They are read from the rows, for our own API gives them to nobody whose rights are lost. Asks for none, stops none.
"""

import json
from collections.abc import Iterable, Iterator

from streaming.models import Batch, Response
from streaming.protocol.batch_lines import answered, unanswered
from streaming.protocol.dialects import encoder_for
from streaming.protocol.events import ENDED
from streaming.store import batches, heads, remains, responses
from streaming.store.batch_work import Result
from streaming.store.responses import Delivered

from .batch_turn import ANSWER_BYTES, Numbered, asked_by, line_id


def results(batch: Batch, left: Iterable[Numbered]) -> Iterator[Result]:
    """Of the lines that are left those whose answer ended well, as the endpoint would have given it.

    What is yielded counts as delivered when the next is asked for.
    """
    there = batches.answered_lines(batch.id)
    rows = Response.objects.select_related("message")
    for number, line in left if there else ():
        response = rows.filter(id=there[number]).first() if number in there else None
        if response and (result := _result(batch, number, line, response)):
            yield result
            responses.raise_delivered([Delivered(response.sent_tokens, None, response.id)])


def _result(batch: Batch, number: int, line: bytes, response: Response) -> Result | None:
    """None where its words have gone since."""
    events = remains.read(response)
    if not events or events[-1].kind != ENDED:
        return None
    name, custom_id = line_id(batch, number), asked_by(batch, line).custom_id
    body = encoder_for(response.dialect, heads.head(response, heads.asked(response))).body(events)
    if len(json.dumps(body)) > ANSWER_BYTES:
        message = f"The answer has more than {ANSWER_BYTES} bytes."
        return Result(number, unanswered(name, custom_id, "answer_too_long", message), is_error=True)
    return Result(number, answered(name, custom_id, 200, response.id, body), is_error=False)
