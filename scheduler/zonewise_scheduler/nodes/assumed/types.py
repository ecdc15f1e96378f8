"""What the ledger is told and what it tells. Times are seconds of one clock, that of the pods' start times."""

from collections.abc import Callable
from typing import NamedTuple

from zonewise_scheduler.admission.node import NodeState
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.admission.verdict import Verdict

Admit = Callable[[NodeState, PodShape], Verdict]

# Reasons of the ledger itself, beside those of a kubelet.
NO_REPORT = "NoReport"
"""Nothing is known of the node."""
BLOCKED_BY_ASSUMED = "InFlight"
"""What is on its way to the node stands in the way, until a report has it."""
NODE_BACKOFF = "SetAside"
"""The node's kubelet lately refused such a pod, though it was foretold to admit it."""
BOUND = "Bound"
"""The pod is on a node already, by another's decision."""


class PendingPod(NamedTuple):
    """A pod that is to be placed."""

    uid: str
    namespace: str
    name: str
    shape: PodShape


class BoundPod(NamedTuple):
    """A pod that the API shows on a node, and that has not ended."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    node: str
    started: float | None = None
    """status.startTime: when its kubelet took it; None: not yet."""


class LedgerTimeouts(NamedTuple):
    """How long the ledger waits, in seconds."""

    report_lag: float = 90.0
    """Whatever happened on a node is in the report that is here this long after: more than the minute at which agents
    report that look only now and then."""
    assume_timeout: float = 120.0
    """A promise that is not bound by then has expired."""
    initial_backoff: float = 10.0
    """How long a pair of a shape and a node is set aside at first; it doubles with each miss."""
    max_backoff: float = 600.0


class AssumedPod(NamedTuple):
    """A pod that is charged on top of its node's report."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    bound: bool
    predicted: Verdict | None
    """What was promised; None for a pod of others."""


class Misprediction(NamedTuple):
    """A pod that was promised and then refused by its kubelet: all that the promise was made of, to be replayed."""

    node: str
    uid: str
    namespace: str
    name: str
    shape: PodShape
    state: NodeState
    """By the report at the time of the promise."""
    ahead: tuple[PodShape, ...]
    """The pods that were in flight then, in the order in which they were charged."""
    foretold: Verdict
    reason: str
    """The kubelet's."""
    message: str
    at: float


class LedgerCounters(NamedTuple):
    """What has happened since the ledger was opened, and how it stands."""

    promised: int
    covered: int
    """Promises that a report has confirmed."""
    withdrawn: int
    expired: int
    refused: tuple[tuple[str, int], ...]
    """Pods refused by kubelets, whoever had placed them, by reason."""
    missed: tuple[tuple[str, int], ...]
    """Those of them that we had promised, by reason."""
    in_flight: int
    """Pods that are charged at present."""
    blocked: int
    """Nodes that take no promise at present, since what is charged no longer fits on their report."""
