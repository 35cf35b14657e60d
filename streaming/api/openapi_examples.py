"""Owns one example of every operation's request and answer, for the OpenAPI document. Tests hold them to the code."""

from typing import Any

from . import openapi_batch_examples
from .openapi_batch_examples import CREATED_S

ID = "resp_01JX0000000000000000000000"
MODEL = "scripted"
VERSION = "2023-06-01"

_USAGE = {
    "prompt_tokens": 12, "completion_tokens": 5, "total_tokens": 17, "prompt_tokens_details": {"cached_tokens": 0},
}  # fmt: skip
_CHAT = {
    "id": ID, "object": "chat.completion", "created": CREATED_S, "model": MODEL,
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello", "refusal": None}, "logprobs": None,
                 "finish_reason": "stop"}],
    "usage": _USAGE,
}  # fmt: skip
_RESPONSE = {
    "id": ID, "object": "response", "created_at": CREATED_S, "status": "completed", "model": MODEL, "error": None,
    "incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True,
    "tool_choice": "auto", "tools": [], "temperature": None, "top_p": None,
    "output": [{"id": "msg_01JX0000000000000000000000", "type": "message", "role": "assistant", "status": "completed",
                "content": [{"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}]}],
    "usage": {"input_tokens": 12, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
              "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 17,
              "generated_tokens": 5, "sent_tokens": 5},
    "end_state": "completed", "end_reason": "stop", "stop": None,
}  # fmt: skip
_CANCELLED = {
    **_RESPONSE, "status": "cancelled", "end_state": "cancelled", "end_reason": "api",
    "stop": {"stop_ms": 11.8, "generated_tokens": 5, "sent_tokens": 5, "tokens_after_stop": 0, "abort_proven": True},
}  # fmt: skip
_MESSAGE = {
    "id": ID, "type": "message", "role": "assistant", "model": MODEL, "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn", "stop_sequence": None,
    "usage": {"input_tokens": 12, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5},
}  # fmt: skip
_TURNS = [{"role": "user", "content": "Say hello."}]
_ITEM = {
    "id": "msg_in_01JX0000000000000000000000_0", "status": "completed", "type": "message", "role": "user",
    "content": [{"type": "input_text", "text": "Say hello."}],
}  # fmt: skip

#: By method and path: what is sent, None where nothing is; and what comes back whole, None where only events come.
BODIES: dict[tuple[str, str], tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    ("post", "/v1/chat/completions"): ({"model": MODEL, "messages": _TURNS, "max_tokens": 64}, _CHAT),
    ("get", "/v1/models"): (None, {"object": "list", "data": [
        {"id": MODEL, "object": "model", "created": CREATED_S, "owned_by": "chatsite", "max_model_len": 2048}]}),
    ("post", "/v1/responses"): ({"model": MODEL, "input": "Say hello.", "max_output_tokens": 64}, _RESPONSE),
    ("get", "/v1/responses/{response_id}"): (None, _RESPONSE),
    ("delete", "/v1/responses/{response_id}"): (None, {"id": ID, "object": "response", "deleted": True}),
    ("get", "/v1/responses/{response_id}/input_items"): (None, {
        "object": "list", "data": [_ITEM], "first_id": _ITEM["id"], "last_id": _ITEM["id"], "has_more": False}),
    ("get", "/v1/responses/{response_id}/stream"): (None, None),
    ("post", "/v1/responses/{response_id}/cancel"): (None, _CANCELLED),
    ("post", "/v1/responses/cancel"): (None, _CANCELLED),
    ("post", "/v1/messages"): ({"model": MODEL, "max_tokens": 64, "messages": _TURNS}, _MESSAGE),
    ("post", "/v1/messages/count_tokens"): ({"model": MODEL, "messages": _TURNS}, {"input_tokens": 12}),
    **openapi_batch_examples.BODIES,
}  # fmt: skip

_CHUNKS = f"""id: {ID}:1.2
data: {{"id":"{ID}","object":"chat.completion.chunk","created":{CREATED_S},"model":"{MODEL}","choices":\
[{{"index":0,"delta":{{"content":"Hello"}},"logprobs":null,"finish_reason":null}}]}}

id: {ID}:1.3
data: [DONE]

"""
_EVENTS = f"""event: response.output_text.delta
id: {ID}:1.2
data: {{"type":"response.output_text.delta","sequence_number":32,"item_id":"msg_01JX0000000000000000000000",\
"output_index":0,"content_index":0,"logprobs":[],"delta":"Hello"}}

"""
_MESSAGE_EVENTS = f"""event: content_block_delta
id: {ID}:1.2
data: {{"type":"content_block_delta","index":0,"delta":{{"type":"text_delta","text":"Hello"}}}}

"""

#: The operations that can answer with events, and a piece of such an answer.
STREAMS: dict[tuple[str, str], str] = {
    ("post", "/v1/chat/completions"): _CHUNKS,
    ("post", "/v1/responses"): _EVENTS,
    ("get", "/v1/responses/{response_id}"): _EVENTS,
    ("get", "/v1/responses/{response_id}/stream"): _CHUNKS,
    ("post", "/v1/messages"): _MESSAGE_EVENTS,
}
