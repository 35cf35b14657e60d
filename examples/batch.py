"""Owns a client of batches: it sends a file of requests, waits patiently, and writes the answers; Ctrl-C cancels.

    URL=http://127.0.0.1:8000/v1 KEY=sk-… python3 -m examples.batch questions.jsonl answers.jsonl

Needs the package openai. The exit code is 0 only where every line was answered; what was not goes to stderr, line by
line. A client that is killed loses nothing: the batch goes on, and its id was printed.
"""

import os
import sys
import time
from pathlib import Path

from openai import OpenAI
from openai.types import Batch

ENDED = ("completed", "failed", "expired", "cancelled")
#: A batch may take a day: looks become rarer.
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 60.0


def start(client: OpenAI, questions: Path) -> Batch:
    """Send the file and have it answered."""
    with questions.open("rb") as data:
        file = client.files.create(file=data, purpose="batch")
    return client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")


def wait(client: OpenAI, batch: Batch) -> Batch:
    """The batch once it has ended; on Ctrl-C it is cancelled, and what was answered is there all the same."""
    pause_s = FIRST_PAUSE_S
    while batch.status not in ENDED:
        try:
            time.sleep(pause_s)
            pause_s = min(LONGEST_PAUSE_S, 1.2 * pause_s)
        except KeyboardInterrupt:
            client.batches.cancel(batch.id)
            pause_s = FIRST_PAUSE_S
        batch = client.batches.retrieve(batch.id)
    return batch


def fetch(client: OpenAI, batch: Batch, answers: Path) -> None:
    """Write the answers, and say what was not answered."""
    answers.write_bytes(b"")
    if batch.output_file_id:
        client.files.content(batch.output_file_id).write_to_file(answers)
    if batch.error_file_id:
        sys.stderr.write(client.files.content(batch.error_file_id).text)
    for error in (batch.errors and batch.errors.data) or ():
        print(f"line {error.line}: {error.message}", file=sys.stderr)


def main() -> int:
    """As the first lines say."""
    if len(sys.argv) != 3 or not Path(sys.argv[1]).is_file():
        sys.exit("usage: python3 -m examples.batch QUESTIONS.jsonl ANSWERS.jsonl, and the first must be there")
    client = OpenAI(base_url=os.environ["URL"], api_key=os.environ["KEY"])
    questions, answers = map(Path, sys.argv[1:])
    batch = start(client, questions)
    print(batch.id, flush=True)
    batch = wait(client, batch)
    fetch(client, batch, answers)
    counts = batch.request_counts
    print(f"{batch.status}: {counts.completed if counts else 0} of {counts.total if counts else 0}")
    return 0 if batch.status == "completed" and counts and not counts.failed else 1


if __name__ == "__main__":
    sys.exit(main())
