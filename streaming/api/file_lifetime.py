"""Owns how long callers may ask for a file to be kept, as OpenAI bounds it. The site's own limits may be narrower."""

from typing import Annotated, Literal

from pydantic import Field

from .schemas import StrictBody

LEAST_S, MOST_S = 3600, 2_592_000


class ExpiresAfter(StrictBody):
    """``seconds`` from a file's making on."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=LEAST_S, le=MOST_S)]
