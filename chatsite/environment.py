"""Owns reading the environment: texts, flags, lists, numbers, secrets in files. Knows no setting."""

import contextlib
import os
from pathlib import Path
from urllib.parse import quote, urlsplit

from django.core.exceptions import ImproperlyConfigured
from django.core.management.utils import get_random_secret_key

#: What is given by a file is a secret or a line; above it somebody named the wrong file.
FILE_BYTES_MAX = 64 * 1024
PERIOD_MIN_S = 0.01


def env(name: str, default: str = "") -> str:
    """The variable, or what is in the file that NAME_FILE names: how containers are given secrets."""
    path = os.environ.get(f"{name}_FILE")
    if path is None:
        return os.environ.get(name, default)
    if name in os.environ:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set: only one may be")
    try:
        with Path(path).open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        text = content.decode("utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ImproperlyConfigured(f"{name}_FILE: {path} cannot be read: {error}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ImproperlyConfigured(f"{name}_FILE: {path} has more than {FILE_BYTES_MAX} bytes")
    if not text:
        # Taken for "not set" it would be a site without a password, or with a key of its own in each process.
        raise ImproperlyConfigured(f"{name}_FILE: {path} is empty; to leave {name} unset, leave {name}_FILE unset")
    return text


def with_password(url: str, password: str) -> str:
    """The URL with the password in it; without one as it is."""
    if not (url and password):
        return url
    parts = urlsplit(url)
    user, host = parts.username or "", parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{user}:{quote(password, safe='')}@{host}").geturl()


def env_flag(name: str, default: bool) -> bool:
    return env(name, "1" if default else "0").lower() in {"1", "true", "yes", "on"}


def env_list(name: str, default: str) -> list[str]:
    return [part.strip() for part in env(name, default).split(",") if part.strip()]


def env_float(name: str, default: float, most: float = 1e12) -> float:
    """A number from 0 to ``most``."""
    text = env(name, str(default))
    try:
        number = float(text)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a number, not {text!r}") from error
    if not 0 <= number <= most:
        raise ImproperlyConfigured(f"{name} must be a number from 0 to {most:g}, not {text!r}")
    return number


def env_count(name: str, default: int, most: int, least: int = 1) -> int:
    """A whole number from ``least`` to ``most``: of what without any of which nothing would work."""
    number = env_float(name, default, most)
    if number < least or number != int(number):
        raise ImproperlyConfigured(f"{name} must be a whole number from {least} to {most}, not {number:g}")
    return int(number)


def env_period(name: str, default: float) -> float:
    """How often something is done, in seconds: never without a pause."""
    period_s = env_float(name, default)
    if period_s < PERIOD_MIN_S:
        raise ImproperlyConfigured(f"{name} must be at least {PERIOD_MIN_S:g} s, not {period_s:g}")
    return period_s


def own_address(host: str, port: str) -> str:
    """Where the web process is reached that listens there, from the same machine."""
    local = "127.0.0.1" if host in {"", "0.0.0.0", "::"} else host
    return f"http://{f'[{local}]' if ':' in local else local}:{port}"


def secret_key(given: str, data_dir: Path) -> str:
    """The key that is given, else one made once and kept in the folder with mode 600."""
    if given:
        if len(given) < 50:
            raise ImproperlyConfigured("SECRET_KEY must have at least 50 characters")
        return given
    path = data_dir / "secret_key"
    if not path.exists():
        data_dir.mkdir(parents=True, exist_ok=True)
        fresh = data_dir / f"secret_key.{os.getpid()}"
        fresh.touch(mode=0o600)
        fresh.write_text(get_random_secret_key() + get_random_secret_key())
        with contextlib.suppress(FileExistsError):
            os.link(fresh, path)
        fresh.unlink()
    return path.read_text()
