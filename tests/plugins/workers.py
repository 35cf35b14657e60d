"""Owns which process of `pytest -n` runs which file of tests: what shares a site, what has to be alone.

Much of the suite waits for processes and timers, so workers side by side save time. But not everything may be
anywhere, or at any time:

- What uses the suite's one site is the first worker's, in the suite's order: so the books see all of its responses.
- What measures this machine comes last, at the last worker, when the others have gone.
- All else goes file by file to whoever has nothing to do, the slowest folders first.
"""

import os
import secrets
from collections.abc import Iterable
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

AT_THE_SITE = ("tests/e2e/", "tests/sdk/", "tests/browser/")
#: Those among them that have sites of their own.
ELSEWHERE = tuple(
    f"tests/e2e/test_{name}.py"
    for name in (
        "a_full_disk", "batches_that_wait", "behind_nginx", "costs", "other_servers", "probing_hops", "the_live_page",
        "the_socket", "processes_that_come_and_go", "what_nginx_lets_through",
    )
)  # fmt: skip
ALONE = ("tests/bench/",)
SLOWEST = ("tests/drill/", "tests/cluster/", "tests/e2e/", "tests/setup/")

#: The tests of a file, and whether each has been run.
Unit = dict[str, bool]


def pytest_configure(config: pytest.Config) -> None:
    """Workers have to find the same tests in one order, also where that is the order of a set."""
    if config.getoption("numprocesses", None):
        os.environ.setdefault("PYTHONHASHSEED", str(secrets.randbelow(2**32)))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Nobody uses the suite's site where the books do not see it."""
    for item in items:
        if _uses_the_site(item) and not is_at_the_site(item.nodeid):
            raise pytest.UsageError(f"{item.nodeid} uses the suite's site: tests/plugins/workers.py must know of it")


def _uses_the_site(item: pytest.Item) -> bool:
    fixtures = item._fixtureinfo.name2fixturedefs.get("site", ()) if isinstance(item, pytest.Function) else ()
    return bool(fixtures) and fixtures[-1].func.__module__ == "tests.plugins.site"


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "Division":
    return Division(config, log)


def is_at_the_site(file: str) -> bool:
    return file.startswith(AT_THE_SITE) and not file.startswith(ELSEWHERE)


def rank(file: str) -> int:
    """Where a file comes among those that anybody may run."""
    return next((nth for nth, folder in enumerate(SLOWEST) if file.startswith(folder)), len(SLOWEST))


class Division(LoadScopeScheduling):
    """xdist's scheduler, with a queue of the first worker and one of the last beside the queue of all."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._at_the_site: dict[str, Unit] = {}
        self._alone: dict[str, Unit] = {}
        self._site_worker: WorkerController | None = None

    @property
    def tests_finished(self) -> bool:
        return super().tests_finished and not self._at_the_site and not self._alone

    @property
    def has_pending(self) -> bool:
        return bool(self._at_the_site or self._alone) or super().has_pending

    def schedule(self) -> None:
        """Divide what was collected, once, and give everybody something to do."""
        if self.collection is None and self._check_nodes_have_same_collection():
            self.collection = list(next(iter(self.registered_collections.values())))
            self._divide(self.collection)
        self._reschedule_all()

    def _divide(self, collection: Iterable[str]) -> None:
        units: dict[str, Unit] = {}
        for test in collection:
            units.setdefault(self._split_scope(test), {})[test] = False
        for file in sorted(units, key=rank):
            self._queue_of(file)[file] = units[file]

    def _queue_of(self, file: str) -> dict[str, Unit]:
        if is_at_the_site(file):
            return self._at_the_site
        return self._alone if file.startswith(ALONE) else self.workqueue

    def _split_scope(self, nodeid: str) -> str:
        return nodeid.partition("::")[0]

    def remove_node(self, node: WorkerController) -> str | None:
        """It has gone: who is left may be alone now."""
        crashed = super().remove_node(node)
        self._reschedule_all()
        return crashed

    def _reschedule_all(self) -> None:
        for node in self.nodes:
            self._reschedule(node)

    def _reschedule(self, node: WorkerController) -> None:
        """Give it files, for a worker runs a test only when it knows the next; or say that there are no more."""
        if node.shutting_down:
            return
        while self._pending_of(self.assigned_work[node]) < 2:
            if queue := self._queue_for(node):
                self._give(node, queue)
            elif self._waits_to_be_alone(node):
                return
            else:
                node.shutdown()
                return

    def _queue_for(self, node: WorkerController) -> dict[str, Unit]:
        """The queue from which it takes its next file; an empty one if there is nothing for it now."""
        is_alone = len(self.nodes) == 1
        if node is self.nodes[0] and not (is_alone and (self.workqueue or self._alone)) and self._at_the_site:
            self._site_worker = node
            return self._at_the_site
        if node is self._site_worker:
            return {}  # Playwright has left its event loop running there
        return self.workqueue or (self._alone if is_alone else {})

    def _waits_to_be_alone(self, node: WorkerController) -> bool:
        return node is self.nodes[-1] and bool(self._alone)

    def _give(self, node: WorkerController, queue: dict[str, Unit]) -> None:
        file = next(iter(queue))
        unit = self.assigned_work[node][file] = queue.pop(file)
        tests = self.registered_collections[node]
        node.send_runtest_some([tests.index(test) for test, is_done in unit.items() if not is_done])
