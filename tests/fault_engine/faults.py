"""Owns the ways in which an answer breaks. Each says whether more chunks follow."""

LONG_LINE_BYTES = 9 * 2**20


def die(engine, stream):
    engine.end(stream)
    stream.connection.transport.close()
    return False


def reset(engine, stream):
    engine.end(stream)
    stream.connection.reset()
    return False


def end_body(engine, stream):
    engine.close_body(stream)
    return False


def stall(engine, stream):
    return False


def report_error(engine, stream):
    error = b'{"type":"error","error":{"code":500,"message":"scripted secret","type":"server_error"}}'
    return end_with(engine, stream, engine.events(stream, [error]))


def send_garbage(engine, stream):
    return end_with(engine, stream, b'data: {"index":0,"content":\n\n')


def send_bad_utf8(engine, stream):
    engine.write(stream, engine.token_event(stream).replace(b" the", b"\xff\xc0\x80\xed\xa0\x80 the"))
    return True


def send_half_event(engine, stream):
    return end_with(engine, stream, engine.token_event(stream)[:40])


def send_long_line(engine, stream):
    return end_with(engine, stream, b"data: " + b"x" * LONG_LINE_BYTES)


def say(engine, stream):
    engine.write(stream, stream.control["say"].encode())
    return {"eof": end_body, "reset": reset, "open": stall}[stream.control.get("then", "eof")](engine, stream)


def end_with(engine, stream, data):
    engine.write(stream, data)
    return end_body(engine, stream)


def end_answer(engine, stream):
    engine.finish(stream, b"", "stop")
    return False


FAULTS = {
    "die_after": die,
    "reset_after": reset,
    "eof_after": end_body,
    "stall_after": stall,
    "error_after": report_error,
    "garbage_after": send_garbage,
    "bad_utf8_after": send_bad_utf8,
    "half_event_after": send_half_event,
    "long_line_after": send_long_line,
    "eos_after": end_answer,
}
