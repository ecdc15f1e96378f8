"""Distribution of tests among the workers of pytest-xdist: all tests of a file or shared server go to one worker.

A server that a file's fixture starts would otherwise start again in each worker that gets a test of the file. While one
half of the workers runs files that mostly wait for programs, the other half computes. So no worker is left with only
waiting tests at the end.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

from support.sharing import SHARED_FIXTURES
from support.snapshots import PROJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from xdist.workermanage import WorkerController

_MOSTLY_WAITING = ("tests/e2e", "tests/contract/test_tutorials", "tests/contract/test_avoided_conditions")
"""Prefixes of files whose tests mostly wait for programs."""
_SHARED = re.compile(rf"\b({'|'.join(SHARED_FIXTURES)})\b")


class FileDistribution(LoadFileScheduling):
    """Sends a worker the next file once it has at most two tests left, in the order of the files.

    It extends xdist/scheduler/loadscope.py, whose units of work are lists of tests by name of the unit.
    """

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        self._indexes = {nodeid: i for i, nodeid in enumerate(collection)}

    def remove_node(self, node: WorkerController) -> str | None:
        """Return the test with which a worker crashed, which the base class would repeat; None if none was left."""
        units = self.assigned_work.pop(node)
        left = [nodeid for tests in units.values() for nodeid, is_complete in tests.items() if not is_complete]
        if not left:
            return None
        for unit, tests in units.items():
            rest = {nodeid: is_complete for nodeid, is_complete in tests.items() if nodeid != left[0]}
            if not all(rest.values()):
                self.workqueue[unit] = rest
        for other in self.nodes:
            self._reschedule(other)
        return left[0]

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: WorkerController) -> None:
        first_half = self.nodes.index(node) < self.numnodes // 2
        wanted = (unit for unit, tests in self.workqueue.items() if _mostly_waits(tests) == first_half)
        unit = next(wanted, next(iter(self.workqueue)))
        tests = self.workqueue.pop(unit)
        self.assigned_work[node] = {
            name: earlier for name, earlier in self.assigned_work[node].items() if not all(earlier.values())
        } | {unit: tests}
        node.send_runtest_some([self._indexes[nodeid] for nodeid, is_complete in tests.items() if not is_complete])


@functools.cache
def unit_of(file: str) -> str:
    """Return what a file's tests are distributed with: the name of the shared server that the file names, or itself."""
    path = PROJECT / file
    found = _SHARED.search(path.read_text()) if path.is_file() else None
    return found[1] if found else file


def _mostly_waits(tests: dict[str, bool]) -> bool:
    return next(iter(tests)).startswith(_MOSTLY_WAITING)
