"""Owns making batches as rows: their files, their lines, and a worker that has taken one. Asks for no answer."""

import json
from datetime import timedelta

from streaming.models import Batch
from streaming.store import batch_work, batches, files
from streaming.store.batches import NewBatch

CHAT = "/v1/chat/completions"
LEASE = timedelta(seconds=10)
MARKER = "Xylophone-Quaternion-7391"


def line(custom_id="a", **fields):
    body = {"model": "demo", "messages": [{"role": "user", "content": MARKER}]}
    return json.dumps({"custom_id": custom_id, "method": "POST", "url": CHAT, "body": body, **fields}).encode() + b"\n"


def file_of(user, data):
    return files.store(files.NewFile(user.pk, "in.jsonl", len(data), None), [data], 2**40)


def batch_of(user, data=b"", key=None, **fields):
    """A batch of these lines; with ``fields`` further than just made."""
    new = NewBatch(user.pk, key and key.pk, CHAT, file_of(user, data or line()).id, None)
    made = batches.create(new, 100)
    Batch.objects.filter(pk=made.pk).update(**fields)
    return Batch.objects.get(pk=made.pk)


def taken(slots=1):
    return batch_work.take(f"worker {Batch.objects.filter(slot__isnull=False).count()}", slots, LEASE)


def begun(user, count=3, key=None):
    """A batch in progress, and whoever works at it."""
    batch_of(user, b"".join(line(str(n)) for n in range(1, count + 1)), key)
    return batch_work.begin(taken(), count, no_store=False)
