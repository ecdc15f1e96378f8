"""One pod of a node, as the ledger knows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict
    from zonewise_scheduler.nodes.assumed.types import LedgerTimeouts


class Prediction(NamedTuple):
    """What a promise was made of."""

    at: float
    verdict: Verdict
    state: NodeState | None
    """By the report; None where nothing was known and the pod was promised blindly."""
    assumed: tuple[PodShape, ...]
    """In flight before it."""


@dataclass(slots=True, eq=False)
class PodState:
    """A pod, and how far it is known to have come."""

    uid: str
    namespace: str
    name: str
    shape: PodShape
    node: str
    hash: int
    """Its hash in pod fingerprints."""
    prediction: Prediction | None = None
    """None: it was not placed by us, or before the ledger was opened."""
    bound: bool = False
    started: float | None = None
    """When its kubelet took it."""
    removed_at: float | None = None
    """When the API last had it, or had it as a living pod."""
    terminated: bool = False
    """Its kubelet says so: it holds nothing any more."""
    covered: bool = False
    """It is in the numbers of the held report."""
    was_covered: bool = False
    """It has been in those of this report or an earlier one."""

    @property
    def is_assumed(self) -> bool:
        """Tell whether it has to be charged on top of the report (the rule is in page.py)."""
        return not self.covered and not (self.removed_at is not None and (self.terminated or self.was_covered))

    def is_tracked(self, at: float, timeouts: LedgerTimeouts) -> bool:
        """Tell whether it is still to be remembered (the rules are in page.py)."""
        if self.removed_at is not None:
            return self.removed_at + timeouts.report_lag > at and not (self.was_covered and not self.covered)
        promised = self.prediction
        return self.bound or self.covered or promised is None or promised.at + timeouts.assume_timeout > at
