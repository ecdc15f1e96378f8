"""The ledger of one node: the node's last report and its pods.

Invariant: each living pod of a node, assumed or bound, counts exactly once. Either the numbers of the last report
include the pod (it is covered), or the ledger subtracts the pod from the report (it is assumed).

Proof. No pod is left out, so no zone is allocated twice: add() makes each pod assumed, and only the following rules
stop its subtraction. No pod is subtracted forever, so no capacity leaks: one rule applies to each pod.

1. The fingerprint of a report identifies a set of pods. A pod in this set is covered. If a covered pod is missing in
   the set of a later report, the kubelet has released it. The pod is assumed again until the API confirms its end,
   since a kubelet that has just started may report too few pods. It is then removed at once.
   A report may show a moment in the middle of an admission. The kubelet lists a pod before it allocates, and allocates
   container by container. So a pod remains assumed while the report shows less than the pod requests (nrt.holdings),
   until ADMISSION_TIME after its start.
   A removed pod and its successor of the same name have the same hash. The hash stands for the removed pod, unless the
   report was published after the successor's admission.
2. A report may have no fingerprint, or one that matches no set of known pods. Each pod then keeps its state. An assumed
   pod becomes covered once it has surely run for LedgerTimeouts.report_lag: the report of that time has then arrived.
   The ledger knows a pod's start by two clocks. By its own clock, the start is when the ledger first saw it. By the API
   server's clock, the start is when the kubelet's status was stored. Either one is enough, and the node's clock does
   not count. If the agent is down, no report has arrived. So the report must also have been published after the start.
   This start is an estimate. It may be too early by the time from binding to admission: if the node's clock is behind,
   it is the time of the binding.
3. A pod that ended, was rejected or was deleted is removed at once. Its kubelet may still be stopping it. But the next
   admission first releases the resources of pods that the API no longer has (removeStaleState() in cpu_manager.go and
   memory_manager.go, UpdateAllocatedDevices() in devicemanager/manager.go; kubelet_pods.go, GetActivePods()). The
   kubelet sees the deletion before it sees a pod that was bound later. An ended pod that no report has included still
   determines the zones of the pods that arrived before its end (unreported_ends.py). A later report ends this. It
   lacks the pod, but includes one that arrived later, or was published after the pod's start.
4. An assumed pod that is not bound is removed when it is forgotten, or once LedgerTimeouts.assume_timeout has passed. A
   caller may hold it for longer.

State machine. A rejection by the kubelet removes a pod in any state. "-" means no change.

| state            | report includes it | report lacks it | ended or deleted | time             |
|------------------|--------------------|-----------------|------------------|------------------|
| assumed, unbound | covered            | -               | removed          | removed (rule 4) |
| assumed, bound   | covered            | -               | ended, uncovered | covered (rule 2) |
| covered          | -                  | assumed again   | ended, covered   | -                |
| assumed again    | covered            | -               | removed          | covered (rule 2) |
| ended, covered   | -                  | removed         | -                | removed (rule 3) |
| ended, uncovered | ended, covered     | - (rule 3)      | -                | removed          |

An ended pod is remembered for LedgerTimeouts.report_lag, since a late report may still include it. If the report shows
its holdings, it is remembered until a report lacks it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from zonewise_common.nrt import podfingerprint
from zonewise_common.nrt.names import ALL_PODS, EXCLUSIVE_PODS
from zonewise_scheduler.nodes.assumed.assumed_state import AssumedState, exhausted
from zonewise_scheduler.nodes.assumed.exclusive_resources import has_exclusive_resources, holds_resources
from zonewise_scheduler.nodes.assumed.fingerprint_match import FingerprintMatcher
from zonewise_scheduler.nodes.assumed.reported_holdings import ReportedHoldings
from zonewise_scheduler.nodes.assumed.unreported_ends import Ends, NodeHistory, SplitPods

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.admission.node import NodeKind, NodeState
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.assumed.pod_state import PodState
    from zonewise_scheduler.nodes.assumed.types import Admit, LedgerTimeouts


ADMISSION_TIME = 5.0
"""Seconds after a pod's start during which a report may show the middle of its admission."""
STAMP_UNIT = 1.0
"""Stamps are whole seconds: of two equal stamps, either may be the earlier one."""


class NodeLedger:
    """A node's last report and its pods."""

    __slots__ = (
        "_assumed_state",
        "_events",
        "_fingerprints",
        "_has_no_assumed",
        "_history",
        "_holdings",
        "_in_admission",
        "_match_pending",
        "_matched_method",
        "_matchers",
        "_published_at",
        "_report_event",
        "_report_version",
        "_split_pods",
        "is_polled",
        "last_state",
        "pods",
        "reported",
    )

    def __init__(self) -> None:
        self.reported: NodeState | None = None
        """The node according to its last report; None without a report."""
        self.pods: dict[str, PodState] = {}
        """Pods by UID, in the order in which they are subtracted from the report."""
        self.last_state: NodeState | None = None
        """The state that Ledger.changed_nodes() last compared."""
        self.is_polled = False
        """True if the report may be up to LedgerTimeouts.report_lag late: see NodeReport.is_polled."""
        self._report_version = -1
        self._published_at = 0.0
        self._fingerprints: dict[str, int] = {}  # by method
        self._holdings = ReportedHoldings(None)
        self._in_admission: set[str] = set()  # pods of the fingerprint that the report shows only partly
        self._matchers: dict[str, FingerprintMatcher] = {}  # by method
        self._matched_method: str | None = None  # method of the fingerprint that matched a set of pods
        self._match_pending = False  # the report has not been matched with the pods yet
        self._history: NodeHistory | None = None
        self._split_pods: SplitPods | None = None
        self._assumed_state: AssumedState | None = None
        self._has_no_assumed = False  # no pod is assumed, the state is the report's, and no state is cached
        self._events = 0  # bindings and ends of pods
        self._report_event = 0  # the last of them before the report arrived

    # --- events

    def update_report(self, report: NodeReport, published: float, replaces: str = "") -> bool:
        """Store a report; return False for a report that is not newer than the current one.

        `published` is a stamp. `replaces` is the version of the report that this one replaces in the source. The order
        of the source counts, since versions go back if etcd is restored from a backup.
        """
        version = _version_number(report.version)
        replaces_current = bool(replaces) and _version_number(replaces) == self._report_version
        if 0 <= version <= self._report_version and not replaces_current:
            return False
        self._report_version = version
        self._published_at = published
        self.is_polled = report.is_polled
        self.reported = report.state
        self._report_event = self._events
        self._holdings = ReportedHoldings(report.holdings)
        self._in_admission.clear()
        self._fingerprints = dict(_fingerprint_numbers(report))
        self._matched_method = None
        self._match_pending = True
        self.invalidate()
        return True

    def replace_state(self, state: NodeState) -> None:
        """Replace the state of the report because facts of the node have changed."""
        self.reported = state
        self._match_pending = True
        self.invalidate()

    def drop_report(self) -> None:
        """Remove the report, but not the pods."""
        self.reported = None
        self._holdings = ReportedHoldings(None)
        self._report_version = -1
        self._fingerprints = {}
        self._matched_method = None
        self.invalidate()

    def add(self, pod: PodState) -> None:
        """Add a pod."""
        self.pods[pod.uid] = pod
        self._invalidate_state()

    def end_pod(self, pod: PodState, at: float) -> None:
        """Record the end of a pod; one whose binding no event has shown arrived before it."""
        pod.arrival = pod.arrival or self.next_event()
        pod.removed_at, pod.end = at, self.next_event()
        self._invalidate_state()
        self.retry_match()

    def remove(self, pod: PodState) -> None:
        """Remove a pod."""
        del self.pods[pod.uid]
        if any(remaining.hash == pod.hash for remaining in self.pods.values()):
            self._match_pending = True  # of two pods with one hash, the older one was covered
        if pod.removed_at is None:
            self.invalidate()
        else:
            self._invalidate_state()

    def next_event(self) -> int:
        """Return the number of the next binding or end of a pod."""
        self._events += 1
        return self._events

    def invalidate(self) -> None:
        """Drop the cached state because the report, its set of pods, or a pod that has arrived has changed."""
        self._history = None
        self._invalidate_state()

    def _invalidate_state(self) -> None:
        """Drop the cached state because pods have been added or have ended."""
        self._split_pods = None
        self._assumed_state = None
        self._has_no_assumed = False

    def confirm_start(self, pod: PodState) -> None:
        """Match the fingerprint again if a predecessor of the same name may have been confused with a pod."""
        if any(earlier.hash == pod.hash and earlier is not pod for earlier in self.pods.values()):
            self._match_pending = True

    def retry_match(self) -> None:
        """Match the fingerprint again after the pods have changed, if no set of pods matched it."""
        self._match_pending = self._match_pending or self._matched_method is None

    # --- pods that are covered or expire

    def match_report(self) -> list[PodState]:
        """Match the report's fingerprint if that is pending; return the pods that are newly covered."""
        if not self._match_pending or self.reported is None:
            return []
        self._match_pending = False
        self.invalidate()
        kind = self.reported.kind
        for method in (ALL_PODS, EXCLUSIVE_PODS):
            if method not in self._fingerprints:
                continue
            pods = [pod for pod in self.pods.values() if method == ALL_PODS or has_exclusive_resources(kind, pod.shape)]
            matcher = self._matchers.setdefault(method, FingerprintMatcher())
            covered_uids = matcher.match(self._fingerprints[method], self._predecessors_last(pods))
            if covered_uids is not None:
                self._matched_method = method
                return self._set_covered(pods, covered_uids, kind)
        self._matched_method = None
        return []

    def _predecessors_last(self, pods: Sequence[PodState]) -> Sequence[PodState]:
        """Return pods in matching order; removed pods whose names are in use again come last.

        A report that was published after a pod's admission includes that pod, and no predecessor of its name.
        """
        admitted = {pod.hash for pod in pods if pod.removed_at is None and self._is_before_report(pod.confirmed)}
        return sorted(pods, key=lambda pod: pod.removed_at is not None and pod.hash in admitted)

    def _is_before_report(self, stamp: float | None) -> bool:
        return stamp is not None and stamp + STAMP_UNIT <= self._published_at

    def _set_covered(self, pods: Sequence[PodState], covered_uids: frozenset[str], kind: NodeKind) -> list[PodState]:
        newly: list[PodState] = []
        for pod in pods:
            if pod.uid in covered_uids:
                if not pod.was_covered and self._holdings.lack_part_of(pod, kind):
                    self._in_admission.add(pod.uid)
                    continue
                if not pod.covered:
                    newly.append(pod)
                pod.covered = pod.was_covered = True
            elif pod.covered:
                pod.covered = False
                self.invalidate()
        self._release_ended(pods)
        if newly:
            self.invalidate()
        return newly

    def _release_ended(self, pods: Sequence[PodState]) -> None:
        """Release the ended pods that the matched report lacks although it was published after their admission."""
        last_arrival = max((pod.arrival for pod in pods if pod.covered), default=0)
        for pod in pods:
            if pod.is_unreported_end and (pod.arrival < last_arrival or self._is_before_report(pod.confirmed)):
                pod.was_covered = True
                self.invalidate()

    def end_admissions(self, at: float, stamp: float) -> list[PodState]:
        """Cover and return the pods that rule 1 has left assumed for ADMISSION_TIME. `stamp`: as in presume_covered."""
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

    def presume_covered(self, at: float, stamp: float, timeouts: LedgerTimeouts) -> list[PodState]:
        """Cover and return the pods that the report must include by rule 2 of the module.

        `stamp` is a time that the API server's clock has surely reached when the caller's clock shows `at`.
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
        """Return whether the report may lack a pod for LedgerTimeouts.report_lag although its agent works."""
        return self.reported is not None and (self.is_polled or self._is_unmatched(pod, self.reported))

    def _is_unmatched(self, pod: PodState, state: NodeState) -> bool:
        return self._matched_method is None or not has_exclusive_resources(state.kind, pod.shape)

    def expired_pods(self, at: float, timeouts: LedgerTimeouts) -> list[PodState]:
        """Return the pods to remove: missing in the report, ended for long enough, or assumed for too long."""
        expired = [pod for pod in self.pods.values() if not pod.is_tracked(at, timeouts)]
        released = self._reported_ends() if expired else {}
        return [pod for pod in expired if pod not in released]

    # --- the resulting state

    def assumed_pods(self) -> list[PodState]:
        """Return the assumed pods in their order, without pods that hold nothing that a state counts."""
        kind = None if self.reported is None else self.reported.kind
        return [
            pod for pod in self.pods.values() if pod.is_assumed and (kind is None or holds_resources(kind, pod.shape))
        ]

    def remaining_holdings(self) -> dict[str, Holdings] | None:
        """Return by key what pods hold by the report, without pods whose end the ledger knows; None if unknown."""
        return self._holdings.without(self._reported_ends())

    def _reported_ends(self) -> dict[PodState, Holdings]:
        return self._holdings.of_ended(self.pods.values(), self._report_event)

    def assumed_state(self, base: NodeState, admit: Admit) -> AssumedState:
        """Return the report's state `base` with the assumed pods."""
        if self._assumed_state is not None:
            return self._assumed_state
        pods = SplitPods((base,), []) if self._has_no_assumed else self.split_assumed(base, admit)
        assumed_state = AssumedState.from_bases(pods.bases, [pod.shape for pod in pods.later], admit)
        self.cache_assumed_state(assumed_state)
        return assumed_state

    def split_assumed(self, base: NodeState, admit: Admit) -> SplitPods:
        """Split the assumed pods at the last end that the report's state `base` does not show.

        If the report's pods are unknown, it may include any of them, so ends that it does not cover do not count.
        """
        if self._split_pods is None:
            is_matched = self._matched_method is not None
            unreported = [pod for pod in self.pods.values() if is_matched and pod.is_unreported_end]
            reported = self._reported_ends()
            remaining = (self._holdings.without(reported) or {}) if reported else {}
            ends = Ends(unreported, reported, remaining.values())
            self._history = self._history or NodeHistory(base)
            self._split_pods = self._history.split(self.assumed_pods(), ends, admit)
        return self._split_pods

    def cache_assumed_state(self, assumed_state: AssumedState) -> None:
        """Cache a result of assumed_state()."""
        self._has_no_assumed = not assumed_state.shapes and assumed_state.base is self.reported
        self._assumed_state = None if self._has_no_assumed else assumed_state

    def state(self, admit: Admit) -> NodeState | None:
        """Return the node with its assumed pods: exhausted if these do not fit, None without a report."""
        if self.reported is None or self._has_no_assumed:
            return self.reported
        state = self.assumed_state(self.reported, admit).state
        return exhausted(self.reported) if state is None else state

    def is_blocked(self, admit: Admit) -> bool:
        """Return whether the assumed pods do not fit on the report."""
        return (
            self.reported is not None
            and not self._has_no_assumed
            and self.assumed_state(self.reported, admit).state is None
        )

    def is_time_dependent(self) -> bool:
        """Return whether the mere passing of time may change anything."""
        return any(not pod.covered or pod.removed_at is not None for pod in self.pods.values())


def _version_number(version: str) -> int:
    """Return a resource version as a number, or -1 if there is none."""
    return int(version) if version.isdecimal() else -1


def _fingerprint_numbers(report: NodeReport) -> Iterator[tuple[str, int]]:
    """Yield the numbers of a report's fingerprints by method, without fingerprints of unknown versions."""
    for method, value in report.fingerprints:
        with suppress(ValueError):
            yield method, podfingerprint.parse_fingerprint(value)
