"""Caches verdicts on equal pods that reach a kubelet one after another, for equal node states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.admit import admit

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.admission.verdict import Verdict


class SequentialVerdicts:
    """Verdicts by shape and state."""

    def __init__(self) -> None:
        self._verdicts: dict[PodShape, dict[NodeState, Verdict]] = {}

    def verdict(self, state: NodeState, shape: PodShape) -> Verdict:
        """Return the verdict on one pod."""
        verdicts = self._verdicts.setdefault(shape, {})
        verdict = verdicts.get(state)
        if verdict is None:
            verdict = verdicts[state] = admit(state, shape)
        return verdict

    def verdicts(self, state: NodeState, shape: PodShape, limit: int) -> list[Verdict]:
        """Return the verdicts on pods of one shape, one after another, up to the first rejection or the limit."""
        verdicts: list[Verdict] = []
        after: NodeState | None = state
        while after is not None and len(verdicts) < limit:
            verdict = self.verdict(after, shape)
            if not verdict.admitted:
                break
            verdicts.append(verdict)
            after = verdict.after
        return verdicts
