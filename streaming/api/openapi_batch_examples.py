"""Owns the examples of files and batches for the OpenAPI document, and the statuses that are theirs alone."""

import json
from typing import Any

CREATED_S = 1_795_982_706
FILE_ID = "file-01JX0000000000000000000000"

_LINE = {
    "custom_id": "first", "method": "POST", "url": "/v1/chat/completions",
    "body": {"model": "scripted", "messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 64},
}  # fmt: skip
_FILE = {
    "id": FILE_ID, "object": "file", "bytes": 171, "created_at": CREATED_S, "expires_at": CREATED_S + 2_592_000,
    "filename": "batch.jsonl", "purpose": "batch", "status": "processed", "status_details": None,
}  # fmt: skip
_BATCH = {
    "id": "batch_01JX0000000000000000000000", "object": "batch", "endpoint": "/v1/chat/completions", "errors": None,
    "input_file_id": FILE_ID, "completion_window": "24h", "status": "completed",
    "output_file_id": "file-01JX0000000000000000000001", "error_file_id": None, "created_at": CREATED_S,
    "in_progress_at": CREATED_S + 4, "expires_at": CREATED_S + 86_400, "finalizing_at": CREATED_S + 9,
    "completed_at": CREATED_S + 9, "failed_at": None, "expired_at": None, "cancelling_at": None, "cancelled_at": None,
    "request_counts": {"total": 1, "completed": 1, "failed": 0}, "metadata": {"night": "monday"},
}  # fmt: skip
_CANCELLED = {
    **_BATCH, "status": "cancelling", "output_file_id": None, "completed_at": None, "finalizing_at": None,
    "cancelling_at": CREATED_S + 8,
}  # fmt: skip
LINES = json.dumps(_LINE) + "\n"

BODIES: dict[tuple[str, str], tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    ("post", "/v1/files"): ({"purpose": "batch", "file": LINES}, _FILE),
    ("get", "/v1/files"): (None, {
        "object": "list", "data": [_FILE], "first_id": FILE_ID, "last_id": FILE_ID, "has_more": False}),
    ("get", "/v1/files/{file_id}"): (None, _FILE),
    ("get", "/v1/files/{file_id}/content"): (None, None),
    ("delete", "/v1/files/{file_id}"): (None, {"id": FILE_ID, "object": "file", "deleted": True}),
    ("post", "/v1/batches"): (
        {"input_file_id": FILE_ID, "endpoint": "/v1/chat/completions", "completion_window": "24h",
         "metadata": {"night": "monday"}, "output_expires_after": {"anchor": "created_at", "seconds": 86_400}},
        _BATCH,
    ),
    ("get", "/v1/batches"): (None, {
        "object": "list", "data": [_BATCH], "first_id": _BATCH["id"], "last_id": _BATCH["id"], "has_more": False}),
    ("get", "/v1/batches/{batch_id}"): (None, _BATCH),
    ("post", "/v1/batches/{batch_id}/cancel"): (None, _CANCELLED),
}  # fmt: skip

#: The operations that answer with a file, and what may be in it.
DOWNLOADS = {("get", "/v1/files/{file_id}/content"): LINES}
#: Statuses beside those that every operation has.
STATUSES: dict[tuple[str, str], tuple[int, ...]] = {
    ("post", "/v1/files"): (404, 413, 415),
    ("post", "/v1/batches"): (404, 413, 415, 429),
}
