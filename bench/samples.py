"""Owns reading py-spy's raw samples and adding them up by thread, layer, package and function. It samples nothing."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from bench.processes import ROOT
from bench.table import grid, number

FRAME = re.compile(r"^(?P<function>.+) \((?P<file>[^()]*?)(?::\d+)?\)$")
OURS = ("streaming.", "chatsite.", "bench.")
SERVER = "(server and framework alone)"
# py-spy takes a thread that waits inside C for a busy one. Nothing of ours computes in these.
WAITING = {
    "concurrent.futures.thread:_worker",
    "queue:Queue.get",
    "signal:sigwait",
    "streaming.journal.commit_thread:CommitThread._run",
    "threading:Condition.wait",
    "threading:Event.wait",
}


@dataclass(frozen=True, slots=True)
class Frame:
    module: str
    function: str

    @property
    def is_ours(self) -> bool:
        return self.module.startswith(OURS)

    @property
    def package(self) -> str:
        return self.module if self.is_ours else self.module.split(".")[0]

    def __str__(self) -> str:
        return f"{self.module}:{self.function}"


@dataclass(frozen=True, slots=True)
class Sample:
    thread: str
    frames: tuple[Frame, ...]  # the outermost first
    count: int


def read_samples(raw: Path) -> list[Sample]:
    samples = [read_sample(line) for line in raw.read_text().splitlines() if line.strip()]
    return [sample for sample in samples if sample.frames and str(sample.frames[-1]) not in WAITING]


def read_sample(line: str) -> Sample:
    stack, _, count = line.rpartition(" ")
    thread, *frames = stack.split(";")
    name = re.sub(r"^thread \(\w+\): ?", "", thread) or thread
    return Sample(re.sub(r"-\d+_\d+$|_\d+$", "", name), tuple(map(read_frame, frames)), int(count))


def read_frame(text: str) -> Frame:
    match = FRAME.match(text)
    if match is None:
        return Frame("?", text)
    return Frame(module_of(match["file"]), match["function"])


def module_of(file: str) -> str:
    """`…/site-packages/daphne/http_protocol.py` -> `daphne.http_protocol`; the same for our files and the stdlib."""
    relative = file.removeprefix(f"{ROOT}/").rpartition("site-packages/")[2]
    relative = re.sub(r"^.*/lib/python3\.\d+/", "", relative)
    return relative.removesuffix(".py").replace("/", ".")


def report(samples: list[Sample], spent_us: float, unit: str, top: int) -> str:
    """`spent_us` is what one unit cost without sampling; the samples only share it out."""

    def table(title: str, counts: Counter[str]) -> str:
        total = sum(sample.count for sample in samples) or 1
        rows = [
            [name, number(100 * count / total), number(spent_us * count / total)]
            for name, count in counts.most_common(top)
        ]
        return grid([title, "%", f"us/{unit}"], rows)

    return "\n\n".join(
        [
            table("by thread", add_up(samples, lambda sample: [sample.thread])),
            table("by layer: our innermost module on the stack", add_up(samples, layer)),
            table("by package that was running", add_up(samples, lambda sample: leaf(sample, lambda f: f.package))),
            table("by function that was running", add_up(samples, lambda sample: leaf(sample, str))),
            table("our functions with all they call", add_up(samples, our_functions)),
        ]
    )


def add_up(samples: Iterable[Sample], names: Callable[[Sample], Iterable[str]]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for sample in samples:
        for name in names(sample):
            counts[name] += sample.count
    return counts


def layer(sample: Sample) -> list[str]:
    return [next((frame.module for frame in reversed(sample.frames) if frame.is_ours), SERVER)]


def leaf(sample: Sample, name: Callable[[Frame], str]) -> list[str]:
    return [name(frame) for frame in sample.frames[-1:]]


def our_functions(sample: Sample) -> set[str]:
    return {str(frame) for frame in sample.frames if frame.is_ours}
