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
LINES = json.dumps(_LINE) + "\n"

BODIES: dict[tuple[str, str], tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    ("post", "/v1/files"): ({"purpose": "batch", "file": LINES}, _FILE),
    ("get", "/v1/files"): (None, {
        "object": "list", "data": [_FILE], "first_id": FILE_ID, "last_id": FILE_ID, "has_more": False}),
    ("get", "/v1/files/{file_id}"): (None, _FILE),
    ("get", "/v1/files/{file_id}/content"): (None, None),
    ("delete", "/v1/files/{file_id}"): (None, {"id": FILE_ID, "object": "file", "deleted": True}),
}  # fmt: skip

#: The operations that answer with a file, and what may be in it.
DOWNLOADS = {("get", "/v1/files/{file_id}/content"): LINES}
#: Statuses beside those that every operation has.
STATUSES: dict[tuple[str, str], tuple[int, ...]] = {("post", "/v1/files"): (404, 413, 415)}
