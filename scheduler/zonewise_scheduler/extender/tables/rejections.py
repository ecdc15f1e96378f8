"""Caches results of filter calls that reject every candidate: kube-scheduler retries pods without success."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.extender.failed_nodes import FailedNodes, RejectionCause

if TYPE_CHECKING:
    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.types import CandidateNodes

POD_GROUP = RejectionCause("PodGroup")
"""The pod waits for others of its gang."""
BINDING = RejectionCause("Binding")
"""The pod is being bound to a node that is not a candidate."""
GONE = RejectionCause("Gone")
"""The pod was deleted."""
_MAX_SHAPES = 128
"""Maximum number of cached results. A result for 5,000 nodes takes about 1.5 MB, including its JSON."""
_MAX_MESSAGES = 32


class CachedRejection(NamedTuple):
    """A result that is valid while no node, candidate or not, may admit the shape.

    The reasons may refer to an earlier state of a node. A node that gets or loses its report invalidates the result.
    """

    reported: int
    """The number of nodes with a report."""
    failed_nodes: FailedNodes
    """A reason for every candidate."""


class RejectionCache:
    """The last such result for each shape of pod, and for each reason that applies to all candidates.

    A result is valid for exactly its candidates, in any order: kube-scheduler may begin its list at any node.
    """

    def __init__(self) -> None:
        self._by_shape: dict[PodShape, CachedRejection] = {}
        self._by_message: dict[str, FailedNodes] = {}

    def get(self, shape: PodShape, candidates: CandidateNodes, reported: int) -> CachedRejection | None:
        """Return the result for a shape and these candidates; `reported`: the number of nodes with a report."""
        cached = self._by_shape.get(shape)
        if cached is None or cached.reported != reported:
            return None
        return cached if cached.failed_nodes.keys() == candidates.name_set else None

    def put(self, shape: PodShape, reported: int, failed_nodes: FailedNodes) -> None:
        """Store a result, with a reason for every candidate."""
        self._by_shape.pop(shape, None)
        self._by_shape[shape] = CachedRejection(reported, failed_nodes)
        if len(self._by_shape) > _MAX_SHAPES:
            del self._by_shape[next(iter(self._by_shape))]

    def fail_all(self, message: str, cause: RejectionCause, candidates: CandidateNodes) -> FailedNodes:
        """Return one reason for all candidates; the same value is reused while the candidates are the same."""
        failed = self._by_message.pop(message, None)
        if failed is None or failed.keys() != candidates.name_set:
            failed = FailedNodes(dict.fromkeys(candidates.names, message), cause)
        self._by_message[message] = failed
        if len(self._by_message) > _MAX_MESSAGES:
            del self._by_message[next(iter(self._by_message))]
        return failed
