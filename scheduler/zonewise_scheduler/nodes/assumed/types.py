"""Values that go into the ledger and out of it.

Times are seconds of two clocks. `at` and the times of the ledger's own values are of the caller's clock. Stamps in
objects are of the API server's clock, and are so named. Clocks of nodes count for nothing.
"""

from collections.abc import Callable
from typing import NamedTuple

from zonewise_scheduler.admission.node import NodeState
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.admission.verdict import Verdict

Admit = Callable[[NodeState, PodShape], Verdict]

# Reasons of the ledger, beside those of a kubelet.
NO_REPORT = "NoReport"
"""The node has no report."""
BLOCKED_BY_ASSUMED = "InFlight"
"""The node's assumed pods block the pod until a report covers them."""
NODE_BACKOFF = "SetAside"
"""The node's kubelet lately rejected such a pod, against the prediction."""
BOUND = "Bound"
"""The pod is bound to a node already, or has ended: a reason of the pod, not of the node."""


class PendingPod(NamedTuple):
    """A pod that needs a node."""

    uid: str
    namespace: str
    name: str
    shape: PodShape


class BoundPod(NamedTuple):
    """A pod that the API shows on a node and that has not terminated."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    node: str
    started: float | None = None
    """Stamp: when the kubelet admitted it, or a little earlier; None: not yet."""
    confirmed: float | None = None
    """Stamp: a time by which the kubelet had admitted it for sure; None: unknown."""


class LedgerTimeouts(NamedTuple):
    """The ledger's time limits, in seconds."""

    report_lag: float = 90.0
    """After this time a report includes every change of its node. Agents that poll report at least once a minute, and
    reports and events need at most half a minute to arrive."""
    assume_timeout: float = 120.0
    """An assumed pod that is not bound by then expires."""
    initial_backoff: float = 10.0
    """The first backoff of a node for a shape of pod; each further misprediction doubles it."""
    max_backoff: float = 600.0


class AssumedPod(NamedTuple):
    """A pod that is subtracted from its node's report."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    bound: bool
    predicted: Verdict | None
    """The verdict when the pod was assumed; None for a pod that others bound."""


class NodeOccupancy(NamedTuple):
    """A node, and what each of its pods holds."""

    reported: NodeState
    """The node by its report."""
    state: NodeState
    """The same with the assumed pods."""
    holdings: tuple[tuple[int, str], ...]
    """The report's texts of nrt.holdings."""
    assumed: tuple[tuple[str, PodShape], ...]
    """UID and shape of each assumed pod, in their order; no other pod is missing in the report."""


class Misprediction(NamedTuple):
    """A pod that its kubelet rejected against the prediction, with all inputs of the prediction, for replay."""

    node: str
    uid: str
    namespace: str
    name: str
    shape: PodShape
    state: NodeState
    """The node by its report, at the time of the prediction."""
    assumed_before: tuple[PodShape, ...]
    """The node's assumed pods at that time, in their order."""
    predicted: Verdict
    reason: str
    """The kubelet's."""
    message: str
    at: float


class LedgerCounters(NamedTuple):
    """Counts of events since the ledger was created, and of the present state."""

    assumed_total: int
    covered: int
    """Assumed pods that a report has confirmed."""
    forgotten: int
    expired: int
    rejected: tuple[tuple[str, int], ...]
    """Pods rejected by kubelets, by reason; pods that others bound included."""
    mispredicted: tuple[tuple[str, int], ...]
    """Those of them that the ledger had assumed, by reason."""
    assumed: int
    """Pods that are assumed at present."""
    blocked: int
    """Nodes that admit no pod at present, since their assumed pods no longer fit on their report."""
