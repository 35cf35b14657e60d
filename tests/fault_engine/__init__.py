"""A fast engine without a model, speaking four wires, that breaks on request. Standard library only.

llama.cpp's `/completion`, OpenAI's `/v1/chat/completions`, Anthropic's `/v1/messages`, vLLM's `/inference/v1/generate`.

``python -m tests.fault_engine --port 0 --rate 25 --slots 200`` prints the port it listens on. Every
token is " the"; each 20th chunk, from the first on, carries the time it was sent as ``<seconds>``,
so that a load driver can tell what the way between adds.

``POST /_control`` with an object sets what happens to the requests that arrive later (``{}`` clears):
``die_after`` (the socket closes amid the body), ``reset_after`` (RST), ``eof_after`` (a clean end of the body),
``stall_after``, ``error_after`` (error object), ``garbage_after`` (not JSON), ``bad_utf8_after`` (bytes in a text
that are not UTF-8), ``half_event_after`` (half an event, then a clean end), ``long_line_after`` (9 MB without a
newline), ``eos_after`` (the model ends by itself): each a number of chunks. ``status`` (refused with it),
``html``, ``json`` (a 200 that is no event stream), ``prefill_s``, ``rate``, ``split`` (each event in two
writes), ``crlf``, ``burst`` (events per write), ``singly`` (what is late is not made up for: no two events come at
once, however busy the machine is), ``hold_slots`` (a closed socket does not free its slot until
cleared), ``say`` (a text that is the rest of the stream as it stands, after ``say_after`` chunks, with ``then`` "eof",
"reset" or "open"), ``comments`` (before each event), ``usage`` ("each", "none"; else where the wire has it),
``refuse_fields`` (a request that has one of them is refused), ``keep_open`` (no end of the body), ``no_abort`` (vLLM's
abort call is taken and does nothing).
The answer of ``/_control``, also to GET, is the counts. ``/_arrivals`` tells of each of the first requests how many
were there with it (itself among them), and how many answers had begun since the start.
"""

from .engine import FaultEngine

__all__ = ["FaultEngine"]
