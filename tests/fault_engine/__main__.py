"""Owns the options of the fault engine, and that a signal ends it."""

import argparse
import asyncio
import signal

from . import FaultEngine


async def main():
    parser = argparse.ArgumentParser(description="A fast engine without a model that breaks on request.")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rate", type=float, default=25.0, help="chunks per second and stream")
    parser.add_argument("--slots", type=int, default=1000)
    parser.add_argument("--context", type=int, default=8192, help="tokens a prompt must be shorter than")
    options = parser.parse_args()
    engine = FaultEngine(options.rate, options.slots, options.context)
    async with engine.serving(options.port):
        print(engine.port, flush=True)
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await stop.wait()


asyncio.run(main())
