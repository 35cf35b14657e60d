"""Owns the parts of requests that speak of functions, as chat completions say them. Calls nothing."""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from .json_schema import check_grammar, check_size
from .schemas import StrictBody

TOOLS_MAX = 128
RUN_TOOLS_MAX = 16

ToolName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,64}$")]
CallId = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Description = Annotated[str, StringConstraints(max_length=16_384)]


class Parameters(StrictBody):
    """What a function takes, as a JSON schema."""

    parameters: dict[str, Any] | None = None

    @field_validator("parameters")
    @classmethod
    def bounded(cls, schema: dict[str, Any] | None) -> dict[str, Any] | None:
        """Not larger than what anybody writes by hand."""
        if schema is not None:
            check_size(schema)
        return schema


class Function(Parameters):
    """One function that the model may call. ``strict`` is taken and ignored."""

    name: ToolName
    description: Description | None = None
    strict: bool | None = None


class Tool(StrictBody):
    """A function; other kinds of tools do not exist here."""

    type: Literal["function"]
    function: Function

    def plain(self) -> dict[str, Any]:
        """As templates know it."""
        return {"type": "function", "function": self.function.model_dump(exclude_none=True, exclude={"strict"})}


class CalledFunction(StrictBody):
    """Which function, and its arguments as JSON text."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=256)]
    arguments: str


class Call(StrictBody):
    """A call that an earlier answer made."""

    id: CallId
    type: Literal["function"] = "function"
    function: CalledFunction


class NamedFunction(StrictBody):
    """Which function must be called."""

    name: ToolName


class NamedTool(StrictBody):
    """The function that must be called."""

    type: Literal["function"]
    function: NamedFunction


Tools = Annotated[list[Tool], Field(max_length=TOOLS_MAX)]


def _each_once(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise ValueError(f"each tool at most once, not {', '.join(names)}")
    return names


#: Names of our own tools, which are run where the model calls them. Whether they are offered today is no form's matter.
RunTools = Annotated[list[ToolName], Field(max_length=RUN_TOOLS_MAX), AfterValidator(_each_once)]


def check_choice(tools: Sequence[dict[str, Any]], choice: str) -> None:
    """Raises ValueError for tools and a choice of them that do not go together."""
    names = [tool["function"]["name"] for tool in tools]
    if len(set(names)) < len(names):
        raise ValueError("tools: two functions have one name")
    if choice in ("auto", "none"):
        return
    if not names:
        raise ValueError("tool_choice: there are no tools to choose from")
    if choice != "required" and choice not in names:
        raise ValueError(f"tool_choice: no function {choice!r} in tools")
    for tool in tools:
        if choice in ("required", tool["function"]["name"]):
            check_grammar(tool["function"].get("parameters") or {})
