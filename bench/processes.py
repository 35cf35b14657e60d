"""Owns starting a server on a free loopback port, learning the port from what it prints, and ending it for certain."""

import asyncio
import contextlib
import os
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.wires import Address

ROOT = Path(__file__).resolve().parent.parent
START_TIMEOUT_S = 60
END_TIMEOUT_S = 15
LOOPBACK = "127.0.0.1"
# Ours prints a URL, daphne "Listening on TCP address 127.0.0.1:41234", the engine nothing but its port.
LISTENING = re.compile(rb"(?:on|address) (?:http://)?127\.0\.0\.1:(\d+)|^(\d+)$")


class StartError(Exception):
    """A process of the bench did not come up; the message carries the end of what it printed."""


@dataclass(frozen=True, slots=True)
class Running:
    pid: int
    address: Address


@contextlib.asynccontextmanager
async def running(
    command: Sequence[str], *, log: Path, env: Mapping[str, str], address: Address | None = None
) -> AsyncIterator[Running]:
    """`address` is for a server that is told its port and prints nothing: it is then up when it accepts."""
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=ROOT,
        env=dict(env),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    announced: asyncio.Future[Address | None] = asyncio.get_running_loop().create_future()
    copying = asyncio.create_task(copy_output(process, log, announced))
    try:
        coming_up = accepts(address, process) if address else announced
        yield Running(process.pid, await up(coming_up, command, log))
    finally:
        await end(process)
        copying.cancel()


async def up(coming_up: Awaitable[Address | None], command: Sequence[str], log: Path) -> Address:
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            address = await coming_up
    except TimeoutError:
        address = None
    if address is None:
        raise StartError(f"{' '.join(command)} did not come up\n{last_lines(log)}")
    return address


def last_lines(log: Path) -> str:
    return log.read_text(errors="replace")[-3000:] if log.exists() else ""


async def copy_output(
    process: asyncio.subprocess.Process, log: Path, announced: asyncio.Future[Address | None]
) -> None:
    """Everything printed goes to the log; the first address in it is announced, or None when there was none."""
    assert process.stdout is not None
    with log.open("ab", buffering=0) as file:
        while line := await process.stdout.readline():
            file.write(line)
            match = LISTENING.search(line)
            if match and not announced.done():
                announced.set_result(Address(LOOPBACK, int(match[1] or match[2])))
    if not announced.done():
        announced.set_result(None)


async def accepts(address: Address, process: asyncio.subprocess.Process) -> Address | None:
    while process.returncode is None:
        try:
            _, writer = await asyncio.open_connection(address.host, address.port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            writer.close()
            return address
    return None


async def end(process: asyncio.subprocess.Process) -> None:
    """SIGTERM, time to leave, then SIGKILL to its whole session: nothing of the bench outlives the bench."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(END_TIMEOUT_S):
            await process.wait()
    except TimeoutError:
        pass
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def finished(command: Sequence[str], *, env: Mapping[str, str]) -> str:
    """Run a command to its end and give back what it printed on stdout."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=dict(env), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise StartError(f"{' '.join(command)} failed\n{errors.decode(errors='replace')[-3000:]}")
    return output.decode()
