"""The ledger's state of one pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.assumed.types import BoundPod, LedgerTimeouts


class Prediction(NamedTuple):
    """The inputs and the verdict of a prediction."""

    at: float
    verdict: Verdict
    state: NodeState | None
    """The node before these pods, as AssumedState.base; None if the node had no report."""
    assumed: tuple[PodShape, ...]
    """The node's assumed pods before this pod, as AssumedState.shapes."""


@dataclass(slots=True, eq=False)
class PodState:
    """A pod and the last known step of its life."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    node: str
    hash: int
    """The pod's hash in pod fingerprints."""
    prediction: Prediction | None = None
    """None if others bound the pod, or if it was bound before the ledger was created."""
    held_until: float = 0.0
    """Time before which the pod does not expire while it is assumed and not bound."""
    bound: bool = False
    arrival: int = 0
    """Number of the pod's binding in the order of the events of the node's bindings and ends; 0: no event yet."""
    end: int = 0
    """Number of the pod's end in the same order; 0: not ended."""
    started: float | None = None
    """Stamp of the kubelet's admission of the pod, or a little earlier."""
    confirmed: float | None = None
    """Stamp of a time by which the kubelet had surely admitted the pod."""
    observed_start: float | None = None
    """Time when the ledger first saw that the pod had started."""
    removed_at: float | None = None
    """Time when the API showed the pod as deleted or finished."""
    covered: bool = False
    """True if the numbers of the current report include the pod."""
    was_covered: bool = False
    """True if the numbers of this report or of an earlier one included the pod, or lacked it because of its end."""

    def note_start(self, pod: BoundPod, at: float) -> None:
        """Record the start of the pod, if it has started; stamps of later status changes may be later."""
        if pod.started is None:
            self.started = self.confirmed = self.observed_start = None
            return
        self.started = _earlier(self.started, pod.started)
        self.confirmed = _earlier(self.confirmed, pod.confirmed)
        self.observed_start = at if self.observed_start is None else self.observed_start

    def has_started_before(self, at: float, stamp: float) -> bool:
        """Return whether the pod had surely started by a time, according to the caller's or the API server's clock."""
        return (self.observed_start is not None and self.observed_start <= at) or (
            self.confirmed is not None and self.confirmed <= stamp
        )

    @property
    def is_assumed(self) -> bool:
        """Return whether the pod must be subtracted from the report (the rules are in node_ledger.py)."""
        return not self.covered and self.removed_at is None

    @property
    def is_unreported_end(self) -> bool:
        """Return whether the pod was bound and has ended, and no report has shown it yet or shown its release."""
        return self.removed_at is not None and not self.covered and not self.was_covered

    def is_tracked(self, at: float, timeouts: LedgerTimeouts) -> bool:
        """Return whether the ledger must still remember the pod (the rules are in node_ledger.py)."""
        if self.removed_at is not None:
            return self.removed_at + timeouts.report_lag > at and not (self.was_covered and not self.covered)
        if self.bound or self.covered or self.prediction is None:
            return True
        return max(self.prediction.at + timeouts.assume_timeout, self.held_until) > at


def _earlier(first: float | None, second: float | None) -> float | None:
    return second if first is None else first if second is None else min(first, second)
