"""Owns when an answer is judged against the schema it was asked to follow, and where. Knows no schema's words."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

from streaming.protocol.end_state import End
from streaming.protocol.output_check import output_error

from .job import Job

#: One at a time, off the loop: a judgement may take half a second.
_judges = ThreadPoolExecutor(1, thread_name_prefix="judging")


async def judged(end: End, job: Job, text: str) -> dict[str, str] | None:
    """What is wrong with the answer's JSON; None where nothing is, or where it was cut or not asked for."""
    schema = job.sampling.json_schema
    # With tools the schema is that of a call, whose arguments are judged as every call's.
    if schema is None or job.tools or end.finish_reason != "stop":
        return None
    return await asyncio.get_running_loop().run_in_executor(_judges, output_error, text, schema)
