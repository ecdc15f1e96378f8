"""Inputs and outputs of the ledger.

Times are in seconds, from two clocks. `at` and the ledger's own times are from the caller's clock. Stamps in objects
are from the API server's clock, and are called stamps. The nodes' clocks are not used.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from zonewise_common.nrt.holdings import Holdings
from zonewise_scheduler.admission.node import NodeState
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.admission.verdict import Verdict

Admit = Callable[[NodeState, PodShape], Verdict]

# Reasons of the ledger, in addition to those of a kubelet.
NO_REPORT = "NoReport"
"""The node has no report."""
BLOCKED_BY_ASSUMED = "InFlight"
"""The node's assumed pods block the pod until a report covers them."""
NODE_BACKOFF = "SetAside"
"""The node's kubelet recently rejected such a pod, against the prediction."""
BOUND = "Bound"
"""The pod is already bound to a node, or has ended: this reason is about the pod, not the node."""


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
    """Stamp of the kubelet's admission of the pod, or a little earlier; None: not yet admitted."""
    confirmed: float | None = None
    """Stamp of a time by which the kubelet had surely admitted the pod; None: unknown."""


class LedgerTimeouts(NamedTuple):
    """The ledger's time limits, in seconds."""

    report_lag: float = 90.0
    """After this time, a report includes every change of its node. Polling agents report at least once a minute, and
    reports and events arrive within half a minute."""
    assume_timeout: float = 120.0
    """Time after which an assumed pod that is not bound expires."""
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
    """A node and the holdings of each of its pods."""

    reported: NodeState
    """The node before its assumed pods, as AssumedState.base."""
    state: NodeState
    """The node with its assumed pods."""
    holdings: Mapping[str, Holdings]
    """What pods hold by the report, by key of nrt.holdings; pods whose end is known to `reported` are left out."""
    assumed: tuple[tuple[str, PodShape], ...]
    """UID and shape of each assumed pod, in their order; `reported` includes all other pods."""
    unlisted: frozenset[str] = frozenset()
    """UIDs of the assumed pods that an earlier report contained: if they are being deleted, the kubelet has released
    them."""


class Misprediction(NamedTuple):
    """A pod that its kubelet rejected against the prediction, with all inputs of the prediction, for replay."""

    node: str
    uid: str
    namespace: str
    name: str
    shape: PodShape
    state: NodeState
    """The node according to its report, at the time of the prediction."""
    assumed_before: tuple[PodShape, ...]
    """The node's assumed pods at that time, in their order."""
    predicted: Verdict
    reason: str
    """The kubelet's reason."""
    message: str
    at: float


class LedgerCounters(NamedTuple):
    """Counts of events since the ledger was created, and of the current state."""

    assumed_total: int
    covered: int
    """Assumed pods that a report has confirmed."""
    forgotten: int
    expired: int
    rejected: tuple[tuple[str, int], ...]
    """Pods rejected by kubelets, by reason, including pods that others bound."""
    mispredicted: tuple[tuple[str, int], ...]
    """Rejected pods that the ledger had assumed, by reason."""
    assumed: int
    """Pods that are currently assumed."""
    blocked: int
    """Nodes that currently admit no pod, because their assumed pods no longer fit on their report."""
