"""Owns which JSON schemas are taken from callers: their size, depth, what is known to explode. Judges no data."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA_BYTES = 65_536
SCHEMA_DEPTH = 16
SCHEMA_NODES = 2_000
REPEATS_MAX = 1_000
#: Keywords whose value is a schema, a list of schemas, or schemas by name.
ONE = ("additionalProperties", "items", "contains", "propertyNames", "not", "if", "then", "else")
MANY = ("anyOf", "allOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
#: Expressions that a grammar is made of can take for ever to match; numbers that it is unrolled to, all memory.
EXPRESSIONS = ("pattern", "patternProperties")
REPEATS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def check_size(schema: Mapping[str, Any]) -> None:
    """Raises ValueError for a schema that is too large, deep or rich to be taken at all."""
    size = len(json.dumps(schema))
    if size > SCHEMA_BYTES:
        raise ValueError(f"the schema must be at most {SCHEMA_BYTES} bytes (got {size})")
    level: list[Any] = [schema]
    nodes = 0
    for _ in range(SCHEMA_DEPTH + 1):
        nodes += len(level)
        level = [part for schema in level if isinstance(schema, Mapping) for _, part in _parts(schema)]
        if not level:
            break
    else:
        raise ValueError(f"the schema must be nested at most {SCHEMA_DEPTH} levels deep")
    if nodes > SCHEMA_NODES:
        raise ValueError(f"the schema must have at most {SCHEMA_NODES} parts (got {nodes})")


def check_grammar(schema: Mapping[str, Any]) -> None:
    """Raises ValueError for a schema that no engine is given to make a grammar of. ``check_size`` comes first."""
    stack: list[tuple[str, Any]] = [("", schema)]
    while stack:
        path, part = stack.pop()
        if isinstance(part, Mapping):
            _check_part(path, part, schema)
            stack += [(f"{path}.{step}" if path else step, child) for step, child in _parts(part)]


def _check_part(path: str, part: Mapping[str, Any], root: Mapping[str, Any]) -> None:
    where = f" at {path[:120]}" if path else ""
    for keyword in EXPRESSIONS:
        if keyword in part:
            raise ValueError(f"{keyword} is not taken in a schema that an answer is held to{where}")
    for keyword in REPEATS:
        count = part.get(keyword)
        if count is not None and not (type(count) is int and 0 <= count <= REPEATS_MAX):
            raise ValueError(f"{keyword} must be an integer from 0 to {REPEATS_MAX}{where}")
    reference = part.get("$ref")
    if reference is not None and not _is_found(reference, root):
        raise ValueError(f"$ref must point into the schema itself, as #/$defs/NAME does{where}")


def _parts(schema: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The schemas that stand directly in one, each with its place. Names of properties are no keywords."""
    for keyword in ONE:
        if isinstance(schema.get(keyword), Mapping):
            yield keyword, schema[keyword]
    for keyword in MANY:
        if isinstance(schema.get(keyword), list):
            yield from ((f"{keyword}.{index}", part) for index, part in enumerate(schema[keyword]))
    for keyword in NAMED:
        if isinstance(schema.get(keyword), Mapping):
            yield from ((f"{keyword}.{name}", part) for name, part in schema[keyword].items())


def _is_found(reference: Any, root: Any) -> bool:
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return False
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(root, Mapping) or name not in root:
            return False
        root = root[name]
    return True
