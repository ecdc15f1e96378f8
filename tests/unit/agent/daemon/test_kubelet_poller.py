"""Which reasons cause which requests to the kubelet, and which responses are cached."""

from __future__ import annotations

import pytest

from support.kubelets import pod
from support.loops import DOWN, OK, Loop
from zonewise.daemon.events import Reason

LIST, ALLOCATABLE = "List", "GetAllocatableResources"


@pytest.fixture
def loop() -> Loop:
    """Return a loop after its first pass, which made every request."""
    agent_loop = Loop()
    agent_loop.run_once(Reason.START)
    assert agent_loop.kubelet.calls == [ALLOCATABLE, LIST]
    agent_loop.kubelet.calls.clear()
    agent_loop.config.refreshes.clear()
    return agent_loop


@pytest.mark.parametrize(
    ("reasons", "requests", "refresh", "scans"),
    [
        ({Reason.STATE}, [LIST], False, 0),
        ({Reason.PODS}, [LIST], False, 0),
        ({Reason.STATE, Reason.PODS}, [LIST], False, 0),
        ({Reason.DEVICES}, [ALLOCATABLE, LIST], True, 0),
        ({Reason.SOCKET}, [ALLOCATABLE, LIST], True, 0),
        ({Reason.RETRY}, [ALLOCATABLE, LIST], True, 0),
        ({Reason.STATE, Reason.DEVICES}, [ALLOCATABLE, LIST], True, 0),
        ({Reason.TIMER}, [ALLOCATABLE, LIST], True, 1),
        ({Reason.CONFIG}, [ALLOCATABLE, LIST], True, 1),
        ({Reason.HARDWARE}, [ALLOCATABLE, LIST], True, 1),
        ({Reason.NOTIFY}, [ALLOCATABLE, LIST], True, 1),
        ({Reason.STATE, Reason.TIMER}, [ALLOCATABLE, LIST], True, 1),
    ],
)
def test_requests(loop: Loop, reasons: set[Reason], requests: list[str], refresh: bool, scans: int) -> None:
    """Pods that start or end cost one call; only reasons that may change the machine cause a scan."""
    loop.run_once(*reasons)
    assert (loop.kubelet.calls, loop.config.refreshes, loop.scanner.count - 1) == (requests, [refresh], scans)


def test_after_a_failure_everything_is_requested(loop: Loop) -> None:
    """A kubelet that was down may have restarted with other resources."""
    loop.kubelet.mood = DOWN
    loop.run_once(Reason.STATE)
    loop.kubelet.mood = OK
    loop.kubelet.calls.clear()
    loop.run_once(Reason.STATE)
    assert loop.kubelet.calls == [ALLOCATABLE, LIST]


def test_calls_are_counted(loop: Loop) -> None:
    """Calls are counted by method, and failures by kind."""
    loop.kubelet.mood = DOWN
    loop.run_once(Reason.STATE)
    assert loop.count("zonewise_kubelet_requests_total", method=LIST) == 2
    assert loop.count("zonewise_kubelet_requests_total", method=ALLOCATABLE) == 1
    assert loop.count("zonewise_kubelet_errors_total", method=LIST, error="KubeletUnavailable") == 1


def test_problems_of_every_source(loop: Loop) -> None:
    """Problems of the client, the files and the configuration are reported together; all other data is still used."""
    loop.kubelet.problems = ("List: something is odd",)
    loop.config.problem = "config.yaml: is empty; the last known one is used"
    loop.kubelet.managers.admit(pod("a", 2))
    loop.run_once(Reason.STATE)
    snapshot = loop.sink.snapshots[-1]
    assert snapshot.problems == (*loop.kubelet.problems, loop.config.problem)
    assert snapshot.nrt is not None
