"""Owns the made-up users, keys and engines of a demonstration. Their names end in a domain that cannot exist."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.models import User

from streaming.models import ApiKey, Engine, ModelPrice
from streaming.store import access

DOMAIN = "demo.invalid"
NAMES = (
    "amelie", "arjun", "beatriz", "carlos", "chidi", "dilnoza", "elif", "emeka", "fatima", "finn", "giulia", "hana",
    "henrik", "ines", "ivana", "jonas", "kavya", "lars", "leila", "lucia", "malik", "maria", "mei", "milan", "nadia",
    "noor", "olga", "pavel", "priya", "rafael", "rosa", "samir", "sofia", "sven", "tariq", "thandi", "tomas", "yuki",
)  # fmt: skip
SERVICES = ("service-search", "service-support", "service-batch", "service-translate")
KEYS = ("production", "staging")
FOR_EVER = datetime(2000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Machine:
    """One engine of the demonstration and how fast and dear it is: milliseconds, euros a million tokens."""

    name: str
    kind: str
    model: str
    share: float
    first_ms: float
    per_prompt_token_ms: float
    gap_ms: float
    input_price: str
    output_price: str


MACHINES = (
    Machine("demo-gpu-1", "vllm", "qwen3-8b", 0.34, 55, 0.055, 17, "0.20", "0.60"),
    Machine("demo-gpu-2", "vllm", "qwen3-8b", 0.31, 58, 0.057, 18, "0.20", "0.60"),
    Machine("demo-gpu-3", "vllm", "llama-3.3-70b", 0.22, 140, 0.16, 34, "0.80", "2.40"),
    Machine("demo-cpu-1", "llamacpp", "smollm2-135m", 0.13, 80, 0.45, 24, "0.02", "0.06"),
)


@dataclass(frozen=True, slots=True)
class People:
    """The ids that answers refer to. ``keys`` are (key id, user id), ``engines`` ids in the order of MACHINES."""

    users: Sequence[int]
    keys: Sequence[tuple[int, int]]
    engines: Sequence[int]


def strangers() -> list[str]:
    """Names of users that no demonstration made: at most three, for a message."""
    rows = User.objects.exclude(email__endswith=f"@{DOMAIN}").order_by("id")
    return list(rows.values_list("username", flat=True)[:3])


def make_people() -> People:
    """Users without a password, two keys for each service, engines that are switched off."""
    users = [_user(name) for name in NAMES]
    services = [_user(name) for name in SERVICES]
    keys = [(_key(service, name), service.pk) for service in services for name in KEYS]
    return People([user.pk for user in users], keys, [_engine(machine) for machine in MACHINES])


def _user(name: str) -> User:
    user, is_new = User.objects.get_or_create(username=name, defaults={"email": f"{name}@{DOMAIN}"})
    if is_new:
        user.set_unusable_password()
        user.save(update_fields=["password"])
    return user


def _key(user: User, name: str) -> int:
    """A key that nobody knows: what ``issue_key`` returns is thrown away."""
    rows = ApiKey.objects.filter(user=user, name=name)
    if not rows.exists():
        access.issue_key(user, name)
    return rows.values_list("id", flat=True)[0]


def _engine(machine: Machine) -> int:
    values = {"kind": machine.kind, "model": machine.model, "enabled": False, "slots": 32, "context_tokens": 32768}
    engine, _ = Engine.objects.get_or_create(name=machine.name, defaults=values)
    price = {"currency": "EUR", "input_price": machine.input_price, "output_price": machine.output_price}
    if not ModelPrice.objects.filter(model=machine.model).exists():
        ModelPrice.objects.create(model=machine.model, valid_from=FOR_EVER, cached_price=machine.input_price, **price)
    return engine.pk
