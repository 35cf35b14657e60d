"""Owns where in a log a caller wants to read on: from what was sent to a checked place. Reads no events."""

from django.http import HttpRequest

from streaming.models import Response
from streaming.protocol.cursor import CursorError, parse_last_event_id
from streaming.store import log, threads

from .errors import ApiError


async def refuse_expired(response: Response) -> None:
    """A response may outlive its log. Raises ApiError with what is left of it: the end and the text."""
    if response.end_state is None or not response.last_seq:
        return
    if not await threads.run(log.holds, response.id, response.last_seq):
        left = {name: getattr(response, name) for name in ("end_state", "end_reason", "finish_reason", "output_text")}
        raise ApiError(410, "the log of this response has expired", code="log_expired", extra=left)


async def cursor_of(request: HttpRequest, response: Response, starting_after: str | None) -> int:
    """The cursor that ``Last-Event-ID`` or ``?starting_after=`` names, checked against the log; raises ApiError."""
    await refuse_expired(response)
    given = request.headers.get("Last-Event-ID")
    param = "Last-Event-ID" if given is not None else "starting_after"
    given = given if given is not None else starting_after
    if given is None:
        return 0
    try:
        position = parse_last_event_id(given, response.id)
    except CursorError as error:
        raise ApiError(400, f"{param}: {error}", code="invalid_request", param=param) from None
    return await checked_position(response, position.epoch, position.seq, param)


async def checked_position(response: Response, epoch: int | None, seq: int, param: str) -> int:
    """The seq, if the response's log has it, written in this epoch where one is given; raises ApiError."""
    if seq == 0:
        return 0
    stored_epoch, last_seq = await threads.run(log.position, response.id, seq)
    if stored_epoch is None:
        message, code = f"the log ends at {last_seq} (got {seq})", "future_event"
    elif epoch is not None and epoch != stored_epoch:
        message, code = "the log has changed; read it from the start", "log_changed"
    else:
        return seq
    raise ApiError(409, f"{param}: {message}", code=code, param=param, extra={"last_seq": last_seq})
