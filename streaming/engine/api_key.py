"""Owns where an engine's key comes from: the variable that its row names, or that one's file. Stores and logs none."""

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

#: A row may name no other variable: it must not be a way to send the site's own secrets to some address.
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*_(API|ENGINE)_KEY")


def check_variable(name: object) -> None:
    """ValueError for a variable whose content an engine must not get."""
    if not isinstance(name, str) or not VARIABLE.fullmatch(name):
        raise ValueError(f"no variable for a key: {name!r}; it must end in _API_KEY or _ENGINE_KEY")


def key_of(options: Mapping[str, Any]) -> str:
    """The key that ``options["api_key_env"]`` names; empty where none is named or set."""
    name = options.get("api_key_env")
    if not name:
        return ""
    try:
        check_variable(name)
    except ValueError as error:
        logger.error("%s; the engine is asked without a key", error)
        return ""
    key = (os.environ.get(name) or _from_file(f"{name}_FILE")).strip()
    if not key:
        logger.warning("the environment has no %s: the engine is asked without a key", name)
    return key


def _from_file(variable: str) -> str:
    """What is in the file that the variable names, as secrets come into containers; empty where there is none."""
    path = os.environ.get(variable)
    try:
        return Path(path).read_text(encoding="utf-8") if path else ""
    except (OSError, UnicodeDecodeError) as error:
        logger.error("%s cannot be read: %s", variable, error)
        return ""
