"""The ends of gangs on real kubelets, with a recorded runtime."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec

from benchmarks.support.gang_ends import GangEnds
from benchmarks.support.live_jobs import JOB_LABEL, GangJob
from benchmarks.support.observed_pods import ObservedPod
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Mapping

GANG = GangJob("gang", 0.0, 2, 4, 0.0, 60)


def nodes(finished: list[tuple[str, str]]) -> Mapping[str, Any]:
    """Return a node that records which containers end."""

    def finish(pod: str, container: str) -> None:
        finished.append((pod, container))

    return {"a": SimpleNamespace(runtime=SimpleNamespace(finish=finish))}


def pod(name: str, phase: str) -> ObservedPod:
    obj = {
        "metadata": {"name": name, "labels": {JOB_LABEL: "gang"}},
        "spec": {"nodeName": "a"},
        "status": {"phase": phase},
    }
    return msgspec.convert(obj, ObservedPod)


def test_a_gang_ends_once_all_of_its_pods_have_run() -> None:
    finished: list[tuple[str, str]] = []
    with closing(GangEnds([GANG], nodes(finished))) as ends:
        for phase in ("Pending", "Running", "Running"):
            ends.observe(pod("gang-0", phase))
        assert not finished, "one of two pods runs"
        ends.observe(pod("gang-1", "Running"))
        eventually(lambda: sorted(finished) == [("gang-0", "c"), ("gang-1", "c")])
    assert not ends.rejected


def test_a_rejected_pod_is_counted_once_and_does_not_complete_the_gang() -> None:
    finished: list[tuple[str, str]] = []
    with closing(GangEnds([GANG], nodes(finished))) as ends:
        ends.observe(pod("gang-0", "Running"))
        for _ in range(2):
            ends.observe(pod("gang-1-x", "Failed"))
        assert ends.rejected == {"gang-1-x"}
        assert not finished
        ends.observe(pod("gang-1-y", "Running"))
        eventually(lambda: len(finished) == 2)


def test_a_pod_that_was_stopped_does_not_count_as_running() -> None:
    finished: list[tuple[str, str]] = []
    with closing(GangEnds([GANG], nodes(finished))) as ends:
        ends.observe(pod("gang-0", "Running"))
        ends.observe(pod("gang-0", "Failed"))
        ends.observe(pod("gang-1", "Running"))
        assert not finished
        ends.observe(pod("gang-0-again", "Running"))
        eventually(lambda: sorted(finished) == [("gang-0-again", "c"), ("gang-1", "c")])
