"""API requests of a preemption, sent to an API server in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from zonewise_common.kube.errors import Conflict, NotFound, ServerError, TransportError
from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.extender.preemption.evictor import Evictor
from zonewise_scheduler.nodes.preemption.types import Preemptor, RunningPod

if TYPE_CHECKING:
    from zonewise_common.kube.client import Client

SHAPE = PodShape((), "BestEffort")
VICTIM = RunningPod("uid-v", "lab", "v", SHAPE, Resource(0, 0, 1, 0), 1, 0.0, Holdings())
PREEMPTOR = Preemptor("uid-p", "lab", "p", SHAPE, 9)


class RecordingServer:
    """An API server that records requests, fails those of one verb, and returns one pod or an error for reads."""

    def __init__(self, verb: str = "", error: Exception | None = None, pod: str | Exception = "uid-v") -> None:
        """`pod` is the UID of the pod, or the error raised when it is read."""
        self.requests: list[tuple[str, str, Any]] = []
        self._pod = pod
        self._verb = verb
        self._error = error

    def patch(self, resource: Any, name: str, patch: Any, **options: Any) -> None:
        self._record("patch", f"{resource.plural}/{name}/{options['subresource']}", patch)

    def delete(self, resource: Any, name: str, **options: Any) -> None:
        self._record("delete", f"{resource.plural}/{name}", options["uid"])

    def get(self, *_: Any, **__: Any) -> dict[str, Any]:
        if isinstance(self._pod, Exception):
            raise self._pod
        return {"metadata": {"uid": self._pod}}

    def create(self, resource: Any, obj: Any, **options: Any) -> None:
        self._record("create", resource.plural, obj)

    def _record(self, verb: str, path: str, body: Any) -> None:
        if verb == self._verb and self._error is not None:
            raise self._error
        self.requests.append((verb, path, body))


def evict(server: RecordingServer) -> bool:
    return Evictor(cast("Client", server)).evict(VICTIM, PREEMPTOR, "n")


def test_a_victim() -> None:
    """The victim gets a condition, is deleted by its UID, and gets an Event."""
    server = RecordingServer()
    assert evict(server)
    marked, deleted, event = server.requests
    assert marked[:2] == ("patch", "pods/v/status")
    assert marked[2]["metadata"] == {"uid": "uid-v"}
    [condition] = marked[2]["status"]["conditions"]
    kind = (condition["type"], condition["status"], condition["reason"])
    assert kind == ("DisruptionTarget", "True", "PreemptionByScheduler")
    assert deleted == ("delete", "pods/v", "uid-v")
    assert (event[2]["reason"], event[2]["involvedObject"]["uid"]) == ("Preempted", "uid-v")


def test_failures() -> None:
    """A victim that no longer exists counts as ended; if the deletion fails otherwise, the victim remains."""
    assert evict(RecordingServer("delete", NotFound(404, "NotFound", "")))
    assert not evict(RecordingServer("delete", ServerError(500, "InternalError", "")))
    assert evict(RecordingServer("create", ServerError(500, "InternalError", "")))


@pytest.mark.parametrize("verb", ["patch", "delete"])
@pytest.mark.parametrize(
    ("pod", "ends"),
    [("uid-v", False), ("uid-new", True), (NotFound(404, "NotFound", ""), True), (TransportError("reset"), False)],
    ids=["changed", "created again", "deleted", "unknown"],
)
def test_a_conflict_is_success_only_if_the_pod_is_gone(verb: str, pod: str | Exception, *, ends: bool) -> None:
    """The API server returns a conflict for a pod that changes too often during a patch."""
    assert evict(RecordingServer(verb, Conflict(409, "Conflict", "it has been modified"), pod)) is ends


def test_the_preemptor() -> None:
    server = RecordingServer()
    evictor = Evictor(cast("Client", server))
    assert evictor.nominate(PREEMPTOR, "n")
    assert server.requests[0][2] == {"metadata": {"uid": "uid-p"}, "status": {"nominatedNodeName": "n"}}
    evictor.write_preemptor_event(PREEMPTOR, "n", 2)
    assert server.requests[1][2]["reason"] == "Preempting"
    gone = RecordingServer("patch", Conflict(409, "Conflict", ""))
    assert not Evictor(cast("Client", gone)).nominate(PREEMPTOR, "n")
