"""Owns which JSON schemas are taken from callers: their size, depth, what is known to explode. Judges no data."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

SCHEMA_BYTES = 65_536
SCHEMA_DEPTH = 16
SCHEMA_NODES = 2_000
REPEATS_MAX = 1_000
#: Keywords whose value is a schema, a list of schemas, or schemas by name.
ONE = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then",
    "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
MANY = ("anyOf", "allOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "$defs", "definitions", "patternProperties", "dependencies", "dependentSchemas")
#: What leads to places of a schema that are not looked at here, in any draft that an answer may be judged by.
ASIDE = ("$dynamicRef", "$recursiveRef", "extends", "disallow")
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
    checked: set[int] = set()
    references: list[tuple[str, Any]] = []
    while stack:
        path, part = stack.pop()
        if isinstance(part, Mapping):
            checked.add(id(part))
            _check_part(path, part)
            references += [(path, part["$ref"])] if part.get("$ref") is not None else []
            stack += [(f"{path}.{step}" if path else step, child) for step, child in _parts(part)]
    for path, reference in references:
        # Whatever stands elsewhere, in an example or under a word of the caller's, nobody has looked at.
        target = _target(reference, schema)
        if not isinstance(target, bool) and id(target) not in checked:
            raise ValueError(f"$ref must point to a schema in the schema itself, as #/$defs/NAME does{_at(path)}")


def _at(path: str) -> str:
    return f" at {path[:120]}" if path else ""


def _check_part(path: str, part: Mapping[str, Any]) -> None:
    where = _at(path)
    for keyword in ASIDE:
        if keyword in part:
            raise ValueError(f"{keyword} is not taken; $ref is{where}")
    if isinstance(part.get("type"), list) and not all(isinstance(name, str) for name in part["type"]):
        raise ValueError(f"type must be a name or a list of names{where}")
    for keyword in EXPRESSIONS:
        if keyword in part:
            raise ValueError(f"{keyword} is not taken in a schema that an answer is held to{where}")
    for keyword in REPEATS:
        count = part.get(keyword)
        if count is not None and not (type(count) is int and 0 <= count <= REPEATS_MAX):
            raise ValueError(f"{keyword} must be an integer from 0 to {REPEATS_MAX}{where}")


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


def _target(reference: Any, root: Any) -> Any:
    """What a reference points to; None where that is nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(root, Mapping) or name not in root:
            return None
        root = root[name]
    return root
