"""Owns `make run`: the order of the steps, the environment of the processes, and what they are."""

import os
import re
from collections.abc import Callable

from chatsite.free_ports import free_ports
from deploy.setup import frontend, locks, model, ports, ready, tokenizer, valkey
from deploy.setup.console import run_logged, say
from deploy.setup.places import PYTHON, ROOT, data_dir, demo_model, log_file
from deploy.setup.supervisor import Command, Supervisor

# What the web process and the tasks still need while they drain.
STOPPED_LAST = {"valkey", "engine"}
# Valkey's advice for who saves to disk, which ours does not; its own settings cannot silence it.
UNSAID = {"valkey": "WARNING Memory overcommit must be enabled!"}
# Celery's advice for servers. In a container, where a newcomer is root, it says nothing about this run.
WARNINGS = "ignore:You're running the worker with superuser privileges"
DRAIN_S = "2"


def run() -> int:
    address = ports.page_address()
    with locks.only_one(data_dir()):
        with locks.waiting_lock(ROOT, "its own set-up"):
            model.ensure(demo_model())
            tokenizer.ensure(demo_model())
            frontend.ensure()
        env = environment(address)
        say("==> Preparing the database and the static files")
        argv = [str(PYTHON), "-m", "deploy.setup.prepare"]
        run_logged("Preparing the database", argv, log_file("prepare"), cwd=ROOT, env=env)
        return Supervisor(commands(), env, str(ROOT)).run(announce(address, env))


def environment(address: ports.Address) -> dict[str, str]:
    """What every process of this run is told. What the person set stays, but for the inner addresses."""
    engine_port, valkey_port = free_ports(2)
    ours = {
        "DATA_DIR": str(data_dir()),
        "DJANGO_SETTINGS_MODULE": "chatsite.settings",
        "ENGINE_HOST": "127.0.0.1",
        "ENGINE_MODEL_PATH": str(demo_model().gguf),
        "ENGINE_PORT": str(engine_port),
        "ENGINE_PORTS": str(engine_port),
        "HOST": address.host,
        "PORT": str(address.port),
        "PYTHONUNBUFFERED": "1",
        "VALKEY_PORT": str(valkey_port),
        "VALKEY_URL": valkey.url(data_dir(), valkey_port),
    }
    defaults = {
        "ALLOWED_HOSTS": f"localhost,127.0.0.1,[::1],{address.host}",
        "DRAIN_S": DRAIN_S,
        "PYTHONWARNINGS": WARNINGS,
    }
    return defaults | dict(os.environ) | ours


def commands() -> list[Command]:
    """The Procfile's processes, so that both ways to start them stay the same."""
    lines = re.findall(r"^(\w+): +(.+)$", (ROOT / "Procfile").read_text(), re.MULTILINE)
    return [Command(name, line, int(name in STOPPED_LAST), UNSAID.get(name)) for name, line in lines]


def announce(address: ports.Address, env: dict[str, str]) -> Callable[[Supervisor], None]:
    """The part that waits beside the processes and says when, and only when, a question would be answered."""

    def waiting(supervisor: Supervisor) -> None:
        site = ready.Site((f"http://127.0.0.1:{env['ENGINE_PORT']}",), address.url)
        ready.wait_until_ready(site, supervisor.say)
        supervisor.say(f"Ready: {address.url}{ready.login_path(env)}", plain=True)

    return waiting
