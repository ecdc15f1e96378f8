"""The ledger's page of one node: its last report, and its pods.

The invariant. Each living pod of a node, promised or bound, is in exactly one place: in the numbers of the held report
(covered), or charged on top of it. Nothing is in neither, so no zone is promised twice; and what is charged leaves by
one of these rules and no other, so no capacity leaks:

1. A pod is covered while the held report's fingerprint is that of a set of pods with it. A later report whose
   fingerprint is that of a set without it means that its kubelet has let it go: until the API says so too it is charged
   again, since a kubelet that has just started may report too few, and then it leaves at once.
2. Where a report has no fingerprint, or one of no set of pods that we can find (pods that we do not know of), each pod
   stays what it was, and a charged pod is taken as covered once its kubelet started it before the report came, and as
   long as Waits.settle ago: the report of that time is then here.
3. A pod that has ended by its kubelet's word, or was refused, leaves at once: the kubelet has given back what it held
   before it said so. One that is gone from the API without that word (deleted by force: its kubelet may still be
   stopping it) leaves Waits.settle later.
4. A promise leaves when it is withdrawn, or is not bound within Waits.promise.

Pods that are gone are remembered for Waits.settle, since a late report may still have them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_common.nrt import podfingerprint
from zonewise_common.nrt.names import ALL_PODS, EXCLUSIVE_PODS
from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState, exhausted
from zonewise_scheduler.nodes.assumed.exclusive_resources import has_exclusive_resources, holds_resources
from zonewise_scheduler.nodes.assumed.fingerprint_match import match_fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.pod_state import PodState
    from zonewise_scheduler.nodes.assumed.types import Admit, LedgerTimeouts


class NodeLedger:
    """One node: its last report, and its pods."""

    __slots__ = (
        "_decides",
        "_flight",
        "_idle",
        "_open",
        "_published",
        "_version",
        "_wanted",
        "pods",
        "reported",
        "shown",
    )

    def __init__(self) -> None:
        self.reported: NodeState | None = None
        """By the last report; None where there is none."""
        self.pods: dict[str, PodState] = {}
        """By UID, in the order in which they are charged."""
        self.shown: NodeState | None = None
        """What was last told of the node to those who ask for changes."""
        self._version = -1
        self._published = 0.0
        self._wanted: dict[str, int] = {}  # numbers of the fingerprints, by method
        self._decides: str | None = None  # the method of the fingerprint that matched
        self._open = False  # the search for what is covered is still to be made
        self._flight: AssumedState | None = None
        self._idle = False  # known to have nothing charged, and no flight kept

    # --- what is told of it

    def update_report(self, report: NodeReport, published: float) -> bool:
        """Take a report, unless it is older than the one that is held, or is the same."""
        version = int(report.version) if report.version.isdecimal() else None
        if version is not None and version <= self._version:
            return False
        self._version = -1 if version is None else version
        self._published = published
        self.reported = report.state
        self._wanted = dict(_numbers(report))
        self._decides = None
        self._open = True
        self.invalidate()
        return True

    def drop_report(self) -> None:
        """Take note that the node has no report any more."""
        self.reported = None
        self._version = -1
        self._wanted = {}
        self._decides = None
        self.invalidate()

    def add(self, pod: PodState) -> None:
        """Take in a pod."""
        self.pods[pod.uid] = pod
        self.invalidate()

    def remove(self, pod: PodState) -> None:
        """Take a pod out."""
        del self.pods[pod.uid]
        if any(other.hash == pod.hash for other in self.pods.values()):
            self._open = True  # which of the two the report has was told by age
        self.invalidate()

    def invalidate(self) -> None:
        """Forget what is charged: the report or the pods have changed."""
        self._flight = None
        self._idle = False

    def retry_match(self) -> None:
        """Have the pods behind the fingerprint searched for again, where none were found: there is news of pods."""
        self._open = self._open or self._decides is None

    # --- what leaves

    def match_report(self) -> list[PodState]:
        """Find what the report covers, where that is still to be done; return the pods that are newly covered."""
        if not self._open or self.reported is None:
            return []
        self._open = False
        kind = self.reported.kind
        for method in (ALL_PODS, EXCLUSIVE_PODS):
            if method not in self._wanted:
                continue
            pods = [pod for pod in self.pods.values() if method == ALL_PODS or has_exclusive_resources(kind, pod.shape)]
            found = match_fingerprint(self._wanted[method], pods)
            if found is not None:
                self._decides = method
                return self._mark(pods, found)
        self._decides = None
        return []

    def _mark(self, pods: Sequence[PodState], found: frozenset[str]) -> list[PodState]:
        newly: list[PodState] = []
        for pod in pods:
            if pod.uid in found:
                if not pod.covered:
                    newly.append(pod)
                pod.covered = pod.was_covered = True
            elif pod.covered:
                pod.covered = False
                self.invalidate()
        if newly:
            self.invalidate()
        return newly

    def presume_covered(self, at: float, timeouts: LedgerTimeouts) -> list[PodState]:
        """Take as covered what the report must have by now though no fingerprint says so; return those pods."""
        if self.reported is None or self._decides == ALL_PODS:
            return []
        found: list[PodState] = []
        for pod in self.pods.values():
            if pod.covered or pod.started is None or not self._undecided(pod, self.reported):
                continue
            if pod.started <= self._published and pod.started + timeouts.report_lag <= at:
                pod.covered = pod.was_covered = True
                found.append(pod)
        if found:
            self.invalidate()
        return found

    def _undecided(self, pod: PodState, state: NodeState) -> bool:
        return self._decides is None or not has_exclusive_resources(state.kind, pod.shape)

    def expired_pods(self, at: float, timeouts: LedgerTimeouts) -> list[PodState]:
        """Return the pods that are to be taken out by now: let go, long gone, or promised too long ago."""
        return [pod for pod in self.pods.values() if not pod.is_tracked(at, timeouts)]

    # --- what follows

    def assumed_pods(self) -> list[PodState]:
        """Return the pods that are charged, in their order."""
        kind = None if self.reported is None else self.reported.kind
        return [
            pod for pod in self.pods.values() if pod.is_assumed and (kind is None or holds_resources(kind, pod.shape))
        ]

    def assumed_state(self, base: NodeState, admit: Admit) -> AssumedState:
        """Return what is in flight on top of the report's state `base`."""
        if self._flight is not None:
            return self._flight
        shapes = [] if self._idle else [pod.shape for pod in self.assumed_pods()]
        flight = AssumedState.from_shapes(base, shapes, admit)
        self.cache_assumed_state(flight)
        return flight

    def cache_assumed_state(self, assumed_state: AssumedState) -> None:
        """Take note of what is in flight, so that it need not be found again."""
        self._idle = not assumed_state.shapes
        self._flight = assumed_state if assumed_state.shapes else None

    def state(self, admit: Admit) -> NodeState | None:
        """Return the node with all that is in flight; drained where that does not fit; None without a report."""
        if self.reported is None or self._idle:
            return self.reported
        state = self.assumed_state(self.reported, admit).state
        return exhausted(self.reported) if state is None else state

    def is_blocked(self, admit: Admit) -> bool:
        """Tell whether what is in flight does not fit."""
        return self.reported is not None and not self._idle and self.assumed_state(self.reported, admit).state is None

    def is_time_dependent(self) -> bool:
        """Tell whether time alone may change anything."""
        return any(not pod.covered or pod.removed_at is not None for pod in self.pods.values())


def _numbers(report: NodeReport) -> Iterator[tuple[str, int]]:
    """Yield the numbers of a report's fingerprints by method, without those of other versions."""
    for method, value in report.fingerprints:
        with suppress(ValueError):
            yield method, podfingerprint.parse_fingerprint(value)
