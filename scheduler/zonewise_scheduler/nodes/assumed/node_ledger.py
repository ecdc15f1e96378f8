"""The ledger of one node: the node's last report and its pods.

Invariant: each living pod of a node, assumed or bound, counts exactly once. Either the numbers of the last report
include the pod (it is covered), or the ledger subtracts the pod from the report (it is assumed).

Proof. No pod is left out, so no zone is given out twice: add() makes each pod assumed. An assumed pod stops being
subtracted only by one of these rules. No pod is subtracted forever, so no capacity leaks: one rule applies to each pod.

1. The fingerprint of a report is that of a set of pods. A pod in this set is covered. A covered pod that is missing in
   the set of a later report was released by the kubelet. The pod is assumed again until the API confirms its end, since
   a kubelet that has just started may report too few pods. It then leaves at once.
   A report may be of a moment in the middle of an admission. The kubelet lists a pod before it allocates, and allocates
   container by container. So a pod stays assumed while the report shows less than the pod requests (nrt.holdings),
   until ADMISSION_TIME after its start.
   A removed pod and its successor of the same name have one hash. It stands for the removed pod, unless the report was
   published after the successor's admission.
2. A report may have no fingerprint, or one that no set of known pods has. Each pod then stays as it was. An assumed pod
   becomes covered once it has surely run for LedgerTimeouts.report_lag: the report of that time has then arrived. The
   ledger knows a pod's start by two clocks. By its own clock, that is when it first saw the start. By the API server's,
   that is when the kubelet's status was stored. Either one is enough, and the clock of the node does not count. Where
   the agent is down no report has arrived. So the report must have been published after the start as well. This start
   is an estimate. It may be too early by the time from binding to admission: a node's clock that is behind shows the
   binding.
3. A pod that ended, was rejected or was deleted leaves at once. Its kubelet may still be stopping it. But the next
   admission releases first what pods hold that the API no longer has (removeStaleState() in cpu_manager.go and
   memory_manager.go, UpdateAllocatedDevices() in devicemanager/manager.go; kubelet_pods.go, GetActivePods()). The
   kubelet sees the deletion before it sees a pod that was bound later.
4. A pod that is assumed and not bound leaves when it is forgotten, or once LedgerTimeouts.assume_timeout has passed.
   A caller may hold it for longer.

State machine. A rejection by the kubelet removes a pod in any state. "-" stands for no change.

| state            | report includes it | report lacks it | ended or deleted | time             |
|------------------|--------------------|-----------------|------------------|------------------|
| assumed, unbound | covered            | -               | removed          | removed (rule 4) |
| assumed, bound   | covered            | -               | ended, uncovered | covered (rule 2) |
| covered          | -                  | assumed again   | ended, covered   | -                |
| assumed again    | covered            | -               | removed          | covered (rule 2) |
| ended, covered   | -                  | removed         | -                | removed          |
| ended, uncovered | ended, covered     | -               | -                | removed          |

An ended pod is remembered for LedgerTimeouts.report_lag, since a late report may still include it.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_common.nrt import podfingerprint
from zonewise_common.nrt.holdings import Holdings, holdings_key, read_holdings
from zonewise_common.nrt.names import ALL_PODS, EXCLUSIVE_PODS
from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState, exhausted
from zonewise_scheduler.nodes.assumed.exclusive_resources import (
    admitted_holdings,
    has_exclusive_resources,
    holds_resources,
)
from zonewise_scheduler.nodes.assumed.fingerprint_match import FingerprintMatcher

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.pod_state import PodState
    from zonewise_scheduler.nodes.assumed.types import Admit, LedgerTimeouts


ADMISSION_TIME = 5.0
"""Seconds after a pod's start in which a report may be of the middle of its admission."""
STAMP_UNIT = 1.0
"""Stamps are whole seconds: of two that are equal, either may be the earlier one."""


class NodeLedger:
    """A node's last report and its pods."""

    __slots__ = (
        "_assumed_state",
        "_fingerprints",
        "_has_no_assumed",
        "_held",
        "_in_admission",
        "_match_pending",
        "_matched_method",
        "_matchers",
        "_published_at",
        "_report_version",
        "holdings",
        "is_polled",
        "last_state",
        "pods",
        "reported",
    )

    def __init__(self) -> None:
        self.reported: NodeState | None = None
        """The node by its last report; None without a report."""
        self.pods: dict[str, PodState] = {}
        """By UID, in the order in which they are subtracted from the report."""
        self.holdings: tuple[tuple[int, str], ...] | None = None
        """What each pod holds by the last report (NodeReport.holdings)."""
        self.last_state: NodeState | None = None
        """The state that Ledger.changed_nodes() last compared."""
        self.is_polled = False
        """The report may be up to LedgerTimeouts.report_lag late: see NodeReport.is_polled."""
        self._report_version = -1
        self._published_at = 0.0
        self._fingerprints: dict[str, int] = {}  # by method
        self._held: dict[str, Holdings] | None = None  # by key; None: not read yet
        self._in_admission: set[str] = set()  # pods of the fingerprint that the report shows in part
        self._matchers: dict[str, FingerprintMatcher] = {}  # by method
        self._matched_method: str | None = None  # of the fingerprint that matched a set of pods
        self._match_pending = False  # the report is not yet matched with the pods
        self._assumed_state: AssumedState | None = None
        self._has_no_assumed = False  # no pod is assumed, and no state is cached

    # --- events

    def update_report(self, report: NodeReport, published: float, replaces: str = "") -> bool:
        """Store a report; return False for a report that is not newer than the current one.

        `published` is a stamp. `replaces` is the version of the report that the source replaces by this one. The order
        of the source counts, since versions go back where etcd is restored from a backup.
        """
        version = _version_number(report.version)
        replaces_current = bool(replaces) and _version_number(replaces) == self._report_version
        if 0 <= version <= self._report_version and not replaces_current:
            return False
        self._report_version = version
        self._published_at = published
        self.is_polled = report.is_polled
        self.reported = report.state
        self.holdings = report.holdings
        self._held = None
        self._in_admission.clear()
        self._fingerprints = dict(_fingerprint_numbers(report))
        self._matched_method = None
        self._match_pending = True
        self.invalidate()
        return True

    def replace_state(self, state: NodeState) -> None:
        """Replace the state of the report by that under other facts of the node."""
        self.reported = state
        self._match_pending = True
        self.invalidate()

    def drop_report(self) -> None:
        """Remove the report; the pods stay."""
        self.reported = None
        self.holdings = None
        self._report_version = -1
        self._fingerprints = {}
        self._matched_method = None
        self.invalidate()

    def add(self, pod: PodState) -> None:
        """Add a pod."""
        self.pods[pod.uid] = pod
        self.invalidate()

    def remove(self, pod: PodState) -> None:
        """Remove a pod."""
        del self.pods[pod.uid]
        if any(remaining.hash == pod.hash for remaining in self.pods.values()):
            self._match_pending = True  # of two pods with one hash, the older one was covered
        self.invalidate()

    def invalidate(self) -> None:
        """Drop the cached state: the report or the pods have changed."""
        self._assumed_state = None
        self._has_no_assumed = False

    def confirm_start(self, pod: PodState) -> None:
        """Match the fingerprint again where a pod's predecessor of the same name may have been taken for it."""
        if any(earlier.hash == pod.hash and earlier is not pod for earlier in self.pods.values()):
            self._match_pending = True

    def retry_match(self) -> None:
        """Match the fingerprint again if no set of pods matched it: the pods have changed."""
        self._match_pending = self._match_pending or self._matched_method is None

    # --- pods that are covered or expire

    def match_report(self) -> list[PodState]:
        """Match the report's fingerprint if that is pending; return the pods that are newly covered."""
        if not self._match_pending or self.reported is None:
            return []
        self._match_pending = False
        kind = self.reported.kind
        for method in (ALL_PODS, EXCLUSIVE_PODS):
            if method not in self._fingerprints:
                continue
            pods = [pod for pod in self.pods.values() if method == ALL_PODS or has_exclusive_resources(kind, pod.shape)]
            matcher = self._matchers.setdefault(method, FingerprintMatcher())
            covered_uids = matcher.match(self._fingerprints[method], self._predecessors_last(pods))
            if covered_uids is not None:
                self._matched_method = method
                return self._set_covered(pods, covered_uids)
        self._matched_method = None
        return []

    def _predecessors_last(self, pods: Sequence[PodState]) -> Sequence[PodState]:
        """Return pods in the order in which they match, with the removed ones last whose names others have by now.

        A report that was published after a pod had been admitted includes that pod, and no predecessor of its name.
        """
        admitted = {pod.hash for pod in pods if pod.removed_at is None and self._is_before_report(pod.confirmed)}
        return sorted(pods, key=lambda pod: pod.removed_at is not None and pod.hash in admitted)

    def _is_before_report(self, stamp: float | None) -> bool:
        return stamp is not None and stamp + STAMP_UNIT <= self._published_at

    def _set_covered(self, pods: Sequence[PodState], covered_uids: frozenset[str]) -> list[PodState]:
        newly: list[PodState] = []
        for pod in pods:
            if pod.uid in covered_uids:
                if not pod.was_covered and self._is_in_admission(pod):
                    self._in_admission.add(pod.uid)
                    continue
                if not pod.covered:
                    newly.append(pod)
                pod.covered = pod.was_covered = True
            elif pod.covered:
                pod.covered = False
                self.invalidate()
        if newly:
            self.invalidate()
        return newly

    def end_admissions(self, at: float, stamp: float) -> list[PodState]:
        """Mark the pods that rule 1 has left assumed for ADMISSION_TIME; return them. `stamp` as in presume_covered."""
        ended: list[PodState] = []
        for uid in list(self._in_admission):
            pod = self.pods.get(uid)
            if pod is None or pod.has_started_before(at - ADMISSION_TIME, stamp - ADMISSION_TIME):
                self._in_admission.discard(uid)
            if pod is not None and uid not in self._in_admission and not pod.covered:
                pod.covered = pod.was_covered = True
                ended.append(pod)
        if ended:
            self.invalidate()
        return ended

    def _is_in_admission(self, pod: PodState) -> bool:
        """Tell whether the report shows less of a pod's CPUs, memory or devices than the pod requests."""
        if self.reported is None or self.holdings is None:
            return False
        if self._held is None:
            try:
                self._held = read_holdings(self.holdings)
            except ValueError:  # damaged: the reader of reports has said so
                self._held, self.holdings = {}, None
                return False
        held = self._held.get(holdings_key(pod.namespace, pod.name), Holdings())
        cpus, amounts = admitted_holdings(self.reported.kind, pod.shape)
        shown = Counter[str]()
        for resource, _, amount in held.amounts:
            shown[resource] += amount
        return held.cpus.bit_count() < cpus or any(shown[resource] < amount for resource, amount in amounts)

    def presume_covered(self, at: float, stamp: float, timeouts: LedgerTimeouts) -> list[PodState]:
        """Mark the pods that the report must include by rule 2 of the module; return them.

        `stamp` is a time that the API server's clock has surely reached at `at`.
        """
        if self.reported is None or self._matched_method == ALL_PODS:
            return []
        presumed: list[PodState] = []
        for pod in self.pods.values():
            if pod.covered or pod.started is None or not self._is_unmatched(pod, self.reported):
                continue
            lag = timeouts.report_lag
            if pod.started <= self._published_at and pod.has_started_before(at - lag, stamp - lag):
                pod.covered = pod.was_covered = True
                presumed.append(pod)
        if presumed:
            self.invalidate()
        return presumed

    def may_lag(self, pod: PodState) -> bool:
        """Tell whether the report may lack a pod for LedgerTimeouts.report_lag, though its agent works."""
        return self.reported is not None and (self.is_polled or self._is_unmatched(pod, self.reported))

    def _is_unmatched(self, pod: PodState, state: NodeState) -> bool:
        return self._matched_method is None or not has_exclusive_resources(state.kind, pod.shape)

    def expired_pods(self, at: float, timeouts: LedgerTimeouts) -> list[PodState]:
        """Return the pods to remove: released, deleted for long enough, or assumed for too long."""
        return [pod for pod in self.pods.values() if not pod.is_tracked(at, timeouts)]

    # --- the state that results

    def assumed_pods(self) -> list[PodState]:
        """Return the assumed pods in their order, without those that hold nothing that a state counts."""
        kind = None if self.reported is None else self.reported.kind
        return [
            pod for pod in self.pods.values() if pod.is_assumed and (kind is None or holds_resources(kind, pod.shape))
        ]

    def assumed_state(self, base: NodeState, admit: Admit) -> AssumedState:
        """Return the report's state `base` with the assumed pods."""
        if self._assumed_state is not None:
            return self._assumed_state
        shapes = [] if self._has_no_assumed else [pod.shape for pod in self.assumed_pods()]
        assumed_state = AssumedState.from_shapes(base, shapes, admit)
        self.cache_assumed_state(assumed_state)
        return assumed_state

    def cache_assumed_state(self, assumed_state: AssumedState) -> None:
        """Cache a result of assumed_state()."""
        self._has_no_assumed = not assumed_state.shapes
        self._assumed_state = assumed_state if assumed_state.shapes else None

    def state(self, admit: Admit) -> NodeState | None:
        """Return the node with its assumed pods; exhausted where these do not fit; None without a report."""
        if self.reported is None or self._has_no_assumed:
            return self.reported
        state = self.assumed_state(self.reported, admit).state
        return exhausted(self.reported) if state is None else state

    def is_blocked(self, admit: Admit) -> bool:
        """Tell whether the assumed pods do not fit on the report."""
        return (
            self.reported is not None
            and not self._has_no_assumed
            and self.assumed_state(self.reported, admit).state is None
        )

    def is_time_dependent(self) -> bool:
        """Tell whether the passing of time alone may change anything."""
        return any(not pod.covered or pod.removed_at is not None for pod in self.pods.values())


def _version_number(version: str) -> int:
    """Return a resource version; -1 for none."""
    return int(version) if version.isdecimal() else -1


def _fingerprint_numbers(report: NodeReport) -> Iterator[tuple[str, int]]:
    """Yield the numbers of a report's fingerprints by method, without fingerprints of unknown versions."""
    for method, value in report.fingerprints:
        with suppress(ValueError):
            yield method, podfingerprint.parse_fingerprint(value)
