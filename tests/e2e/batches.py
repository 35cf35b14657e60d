"""Owns the steps of a caller of batches by the official SDK, and the lines that they send. Judges how far a file is."""

import io
import json

from tests.e2e.reading import eventually, says

WAIT_S = 120


def line(number, text=None, url="/v1/chat/completions", **body):
    asked = text or says(f"answer {number}")
    said = {"input": asked} if url == "/v1/responses" else {"messages": [{"role": "user", "content": asked}]}
    more = {"max_tokens": 100} if url == "/v1/messages" else {}
    whole = {"model": "scripted", **said, **more, **body}
    return {"custom_id": f"line {number}", "method": "POST", "url": url, "body": whole}


def start(client, lines, endpoint="/v1/chat/completions", **fields):
    data = "\n".join(map(json.dumps, lines)).encode()
    file = client.files.create(file=("night.jsonl", io.BytesIO(data)), purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h", **fields)


def until(client, batch, *statuses, timeout_s=WAIT_S):
    return eventually(lambda: (b := client.batches.retrieve(batch.id)).status in statuses and b, timeout_s, 0.1)


def content(client, file_id):
    return [json.loads(text) for text in client.files.content(file_id).text.splitlines()] if file_id else []


def texts(lines):
    """What was said, by line; every line once, and well answered."""
    found = {}
    for one in lines:
        assert one["custom_id"] not in found
        assert (one["response"]["status_code"], one["error"]) == (200, None)
        found[one["custom_id"]] = one["response"]["body"]["choices"][0]["message"]["content"]
    return found
