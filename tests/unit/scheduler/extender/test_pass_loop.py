"""The loop of scheduling passes: it runs after an event until nothing more fits, and survives errors."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from support.waiting import eventually
from zonewise_scheduler.extender.pass_loop import PassLoop

if TYPE_CHECKING:
    import pytest

    from zonewise_scheduler.extender.binder import Binder
    from zonewise_scheduler.extender.cache import ExtenderCache
    from zonewise_scheduler.extender.informers import Informers


class FakeCluster:
    """A stand-in for the cache, the binder and the informers; placements are numbers."""

    def __init__(self) -> None:
        self.changed = threading.Event()
        self.unsynced: list[str] = []
        self.fitting: list[int] = []
        self.submitted: list[int] = []
        self.assumed: list[int] = []
        """Placements of a pass that then failed."""
        self.fails = False
        self.passes = 0

    def place_waiting(self) -> list[int]:
        self.passes += 1
        if self.fails:
            self.fails = False
            raise ValueError("a bug")
        placed, self.fitting = self.fitting[:2], self.fitting[2:]
        return placed

    def take_placements(self) -> list[int]:
        placed, self.assumed = self.assumed, []
        return placed

    def submit(self, placements: list[int]) -> None:
        self.submitted += placements


def loop(cluster: FakeCluster) -> PassLoop:
    return PassLoop(cast("ExtenderCache", cluster), cast("Binder", cluster), cast("Informers", cluster))


def test_passes_until_nothing_more_fits() -> None:
    """After one event, passes are run until one places nothing."""
    cluster = FakeCluster()
    with loop(cluster):
        cluster.fitting = [1, 2, 3, 4, 5]
        cluster.changed.set()
        eventually(lambda: cluster.submitted == [1, 2, 3, 4, 5])


def test_nothing_before_the_first_lists() -> None:
    """Nothing is placed until the pods that already have nodes are known."""
    cluster = FakeCluster()
    cluster.unsynced, cluster.fitting = ["pods"], [1]
    with loop(cluster):
        cluster.changed.set()
        eventually(lambda: not cluster.changed.is_set())
        assert cluster.passes == 0
        cluster.unsynced = []
        cluster.changed.set()
        eventually(lambda: cluster.submitted == [1])


def test_an_error_does_not_end_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster()
    cluster.fails, cluster.fitting = True, [1]
    with loop(cluster):
        cluster.changed.set()
        eventually(lambda: "a scheduling pass failed" in caplog.text)
        cluster.changed.set()
        eventually(lambda: cluster.submitted == [1])


def test_pods_placed_by_a_failed_pass_are_bound() -> None:
    cluster = FakeCluster()
    cluster.fails, cluster.assumed = True, [1]
    with loop(cluster):
        cluster.changed.set()
        eventually(lambda: cluster.submitted == [1])
