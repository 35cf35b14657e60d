"""Owns compose.yaml and deploy/Dockerfile as tests read them. Judges nothing."""

import json
import re
import shlex
from dataclasses import dataclass
from typing import Any

import yaml
from dockerfile_parse import DockerfileParser

from tests.child import ROOT

COMPOSE = ROOT / "compose.yaml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
VARIABLE = re.compile(r"(?<!\$)\$\{(\w+)(?::([-?])([^}]*))?\}")


def compose() -> dict[str, Any]:
    """With defaults put in for variables of the person's, and `$$` as the container sees it."""
    text = VARIABLE.sub(lambda match: match[3] if match[2] == "-" else "chat.example.org", COMPOSE.read_text())
    return yaml.safe_load(text.replace("$$", "$"))


def variables() -> set[str]:
    """What a person may set."""
    return {match[1] for match in VARIABLE.finditer(COMPOSE.read_text())}


@dataclass(frozen=True)
class Copied:
    """One COPY: from the checkout where ``stage`` is None."""

    stage: str | None
    sources: tuple[str, ...]
    target: str


@dataclass
class Stage:
    name: str
    base: str
    copied: list[Copied]
    user: str = "root"
    command: tuple[str, ...] = ()


def stages() -> dict[str, Stage]:
    found: dict[str, Stage] = {}
    newest: Stage | None = None
    for step in DockerfileParser(str(DOCKERFILE)).structure:
        words = step["value"]
        if step["instruction"] == "FROM":
            base, _, name = words.partition(" AS ")
            inherited = found.get(base)
            newest = found[name] = Stage(name, base, [], inherited.user if inherited else "root")
        elif step["instruction"] == "COPY":
            parts = shlex.split(words)
            stage = parts.pop(0).removeprefix("--from=") if parts[0].startswith("--from=") else None
            newest.copied.append(Copied(stage, tuple(parts[:-1]), parts[-1]))
        elif step["instruction"] == "USER":
            newest.user = words
        elif step["instruction"] == "CMD":
            newest.command = tuple(json.loads(words))
    return found


def settings_known() -> set[str]:
    """The variables that chatsite/settings.py reads."""
    text = (ROOT / "chatsite" / "settings.py").read_text()
    return set(re.findall(r"\benv(?:_flag|_list|_float)?\(\s*\"(\w+)\"", text))
