"""Owns the tool that calculates, as a model is told of it. The arithmetic itself is ``arithmetic``."""

import json
from collections.abc import Mapping
from typing import Any

from .arithmetic import CHARS_MAX, evaluate
from .decimals import CONSTANTS, FUNCTIONS, Uncountable
from .tool import Tool, ToolFailed, parameters


async def _call(_user_id: int, arguments: Mapping[str, Any]) -> str:
    try:
        value = evaluate(arguments["expression"])
    except Uncountable as why:
        raise ToolFailed(f"expression: {why}") from None
    return json.dumps({"result": value.text, "rounded": True} if value.rounded else {"result": value.text})


TOOL = Tool(
    "calculate",
    "Calculates an arithmetic expression exactly, with decimal numbers: + - * / // % ** and parentheses. "
    f"Functions: {', '.join(FUNCTIONS)}. Constants: {', '.join(CONSTANTS)}. Example: round(1234.5 * 1.19, 2)",
    parameters(
        ("expression",),
        expression={
            "type": "string",
            "description": "numbers without thousands separators or units",
            "minLength": 1,
            "maxLength": CHARS_MAX,
        },
    ),
    _call,
)
