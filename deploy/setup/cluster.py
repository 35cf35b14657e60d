"""Owns `make cluster`: the processes of compose.yaml on the loopback, without containers. Supervises none itself."""

from collections.abc import Callable, Mapping
from pathlib import Path

from chatsite.free_ports import free_ports
from deploy.setup import frontend, locks, model, nginx, ports, postgres, ready, run, tokenizer
from deploy.setup.console import run_logged, say
from deploy.setup.places import PYTHON, ROOT, data_dir, demo_model, log_file
from deploy.setup.supervisor import Command, Supervisor

WEB_PROCESSES = 3
ENGINES = 2
ONCE = {"valkey", "worker", "beat"}
#: Where the Procfile's web process listens; here each has a port of its own, on the loopback.
WEB_ADDRESS = '--host "${HOST:-127.0.0.1}" --port "${PORT:-8000}"'


def cluster() -> int:
    program = nginx.program()
    address = ports.claim(ports.DEFAULT_HOST, ports.port())
    with locks.only_one(data_dir()):
        with locks.waiting_lock(ROOT, "its own set-up"):
            model.ensure(demo_model())
            tokenizer.ensure(demo_model())
            frontend.ensure()
        folder = data_dir().resolve()
        inner = free_ports(WEB_PROCESSES + ENGINES)
        web_ports, engine_ports = inner[:WEB_PROCESSES], inner[WEB_PROCESSES:]
        with postgres.prepared(folder) as database_url:
            env = environment(address, engine_ports, database_url)
            say("==> Preparing the database and the static files")
            argv = [str(PYTHON), "-m", "deploy.setup.prepare"]
            run_logged("Preparing the database", argv, log_file("prepare"), cwd=ROOT, env=env)
        front = folder / "nginx"
        front.mkdir(exist_ok=True)
        nginx.lay_out(front, nginx.Front(address.port, web_ports, folder / "static"))
        processes = commands(program, front, web_ports, engine_ports)
        return Supervisor(processes, env, str(ROOT)).run(announce(address, engine_ports, env))


def environment(address: ports.Address, engine_ports: list[int], database_url: str) -> dict[str, str]:
    """What every process is told: as for `make run`, but that there are several."""
    several = {
        "DATABASE_URL": database_url,
        "ENGINE_PORTS": ",".join(map(str, engine_ports)),
        "WEB_PROCESSES": str(WEB_PROCESSES),
    }
    return run.environment(address) | several


def commands(program: str, front: Path, web_ports: list[int], engine_ports: list[int]) -> list[Command]:
    """The Procfile's processes, some of them several times, behind nginx and before PostgreSQL.

    Who drains is stopped first, while nginx still carries what it sends; then what it needed.
    """
    lines = {command.name: command for command in run.commands()}
    web, engine = lines["web"].shell_line, lines["engine"].shell_line
    return [
        *(Command(f"web-{n}", web.replace(WEB_ADDRESS, f"--port {port}")) for n, port in enumerate(web_ports, 1)),
        *(Command(f"engine-{n}", f"env ENGINE_PORT={port} {engine}", 1) for n, port in enumerate(engine_ports, 1)),
        *(command for name, command in lines.items() if name in ONCE),
        Command("postgres", f"{_word(PYTHON)} -m deploy.setup.postgres", 1),
        Command("nginx", " ".join(map(_word, nginx.command(program, front))), 1),
    ]


def _word(part: object) -> str:
    return "'" + str(part).replace("'", "'\\''") + "'"


def announce(address: ports.Address, engine_ports: list[int], env: Mapping[str, str]) -> Callable[[Supervisor], None]:
    """Waits beside the processes and says the one address when a question would be answered."""

    def waiting(supervisor: Supervisor) -> None:
        engines = tuple(f"http://127.0.0.1:{port}" for port in engine_ports)
        told = " ".join(f"{name}={_word(env[name])}" for name in ("DATA_DIR", "DATABASE_URL"))
        supervisor.say(f"Commands for it: {told} .venv/bin/python manage.py …")
        ready.wait_until_ready(ready.Site(engines, address.url), supervisor.say)
        supervisor.say(f"Ready: {address.url}{ready.login_path(dict(env))}", plain=True)

    return waiting
