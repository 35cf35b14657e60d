"""Owns when an answer is judged against the schema it was asked to follow, and where. Knows no schema's words."""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor

from streaming.protocol.end_state import End
from streaming.protocol.output_check import output_error

from .job import Job

logger = logging.getLogger(__name__)

#: An answer's end waits no longer for those whose schemas are hard: it stays unjudged.
PATIENCE_S = 5.0
#: One at a time, off the loop: a judgement may take half a second.
_judges = ThreadPoolExecutor(1, thread_name_prefix="judging")


async def judged(end: End, job: Job, text: str) -> dict[str, str] | None:
    """What is wrong with the answer's JSON; None where nothing is, where it was cut or not asked for, or in no time."""
    schema = job.sampling.json_schema
    # With tools the schema is that of a call, whose arguments are judged as every call's.
    if schema is None or job.tools or end.finish_reason != "stop":
        return None
    try:
        async with asyncio.timeout(PATIENCE_S):
            return await asyncio.get_running_loop().run_in_executor(_judges, output_error, text, schema)
    except TimeoutError:
        logger.warning("%s ends unjudged: others before it took too long", job.response_id)
        return None
