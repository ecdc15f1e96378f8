"""The ledger's state of one pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts


class Prediction(NamedTuple):
    """The inputs and the verdict of a prediction."""

    at: float
    verdict: Verdict
    state: NodeState | None
    """The node by its report; None where the node had no report."""
    assumed: tuple[PodShape, ...]
    """The node's assumed pods before it."""


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
    """None: others bound the pod, or it was bound before the ledger was created."""
    bound: bool = False
    started: float | None = None
    """When the kubelet admitted it."""
    removed_at: float | None = None
    """When the API deleted it or showed it as finished."""
    terminated: bool = False
    """The kubelet has reported the end of the pod, so the pod holds nothing any more."""
    covered: bool = False
    """The numbers of the current report include it."""
    was_covered: bool = False
    """The numbers of this report or of an earlier one included it."""

    @property
    def is_assumed(self) -> bool:
        """Tell whether the pod must be subtracted from the report (the rules are in node_ledger.py)."""
        return not self.covered and not (self.removed_at is not None and (self.terminated or self.was_covered))

    def is_tracked(self, at: float, timeouts: LedgerTimeouts) -> bool:
        """Tell whether the ledger must still remember the pod (the rules are in node_ledger.py)."""
        if self.removed_at is not None:
            return self.removed_at + timeouts.report_lag > at and not (self.was_covered and not self.covered)
        prediction = self.prediction
        return self.bound or self.covered or prediction is None or prediction.at + timeouts.assume_timeout > at
