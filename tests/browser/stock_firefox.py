"""Owns a Firefox as distributions ship it, started and driven by Playwright over WebDriver BiDi. Knows no page.

Playwright asks for colours in each new context, by a command that extended-support releases do not have yet. So what
it starts as its browser is this file: it starts Firefox and passes on all but that one command, which it says is done.
"""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve

LISTENING = re.compile(r"WebDriver BiDi listening on (ws://\S+)")
UNKNOWN = "emulation.setMediaFeaturesOverride"


def executable() -> str | None:
    """Where Firefox is: named in FIREFOX, or found; None where there is none."""
    return os.environ.get("FIREFOX") or shutil.which("firefox-esr") or shutil.which("firefox")


def launch_options(folder: Path) -> dict[str, Any]:
    """What Playwright's ``firefox.launch`` takes; ``folder`` gets the program that it starts."""
    program = folder / "firefox"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -P "{__file__}" "$@"\n')
    program.chmod(0o755)
    return {"channel": "moz-firefox", "executable_path": program, "env": {**os.environ, "FIREFOX": executable()}}


async def _relay(above: ServerConnection, url: str) -> None:
    """All frames both ways; on the way down the one command is answered here."""
    async with connect(url + above.request.path, max_size=None, proxy=None) as below:

        async def up() -> None:
            async for frame in below:
                await above.send(frame)
            await above.close()

        upward = asyncio.create_task(up())
        async for frame in above:
            command = json.loads(frame)
            if command["method"] == UNKNOWN:
                await above.send(json.dumps({"type": "success", "id": command["id"], "result": {}}))
            else:
                await below.send(frame)
        upward.cancel()


async def _run(argv: list[str]) -> int:
    firefox = await asyncio.create_subprocess_exec(os.environ["FIREFOX"], *argv, stderr=asyncio.subprocess.PIPE)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, firefox.terminate)
    async for line in firefox.stderr:
        said = line.decode(errors="replace")
        if found := LISTENING.search(said):
            server = await serve(lambda above, url=found[1]: _relay(above, url), "127.0.0.1", 0, max_size=None)
            said = f"WebDriver BiDi listening on ws://127.0.0.1:{server.sockets[0].getsockname()[1]}\n"
        print(said, end="", file=sys.stderr, flush=True)
    return await firefox.wait()


if __name__ == "__main__":
    sys.exit(asyncio.run(_run(sys.argv[1:])))
