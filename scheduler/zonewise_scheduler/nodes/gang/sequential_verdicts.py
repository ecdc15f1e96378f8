"""What a node answers to one pod after the other, worked out once for nodes in equal states."""

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
        self._known: dict[PodShape, dict[NodeState, Verdict]] = {}

    def verdict(self, state: NodeState, shape: PodShape) -> Verdict:
        """Return the verdict on one pod."""
        known = self._known.setdefault(shape, {})
        found = known.get(state)
        if found is None:
            found = known[state] = admit(state, shape)
        return found

    def verdicts(self, state: NodeState, shape: PodShape, limit: int) -> list[Verdict]:
        """Return the verdicts on pods of one shape, one after the other, until one is refused or there are enough."""
        found: list[Verdict] = []
        after: NodeState | None = state
        while after is not None and len(found) < limit:
            verdict = self.verdict(after, shape)
            if not verdict.admitted:
                break
            found.append(verdict)
            after = verdict.after
        return found
