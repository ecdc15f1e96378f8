"""The agent's loop: wait for an event, scan the machine, poll the kubelet, and submit a snapshot to the sinks."""

from __future__ import annotations

import logging
import math
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zonewise.daemon.events import MACHINE_UNCHANGED, Reason
from zonewise.daemon.settled_memory import SettledMemory
from zonewise.daemon.status import Snapshot
from zonewise.kubelet.errors import KubeletError
from zonewise.nfd.types import NO_LOCAL_FEATURES
from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG
from zonewise.objects.features import Features, node_features, published_features
from zonewise.objects.labels import DEFAULT_LABEL_CONFIG, LabelConfig, Labels, build_labels
from zonewise.objects.nrt import NrtOptions, machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise_common.kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.daemon.health_monitor import HealthMonitor
    from zonewise.daemon.kubelet_poller import PollResult
    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.node_rules import NodeRules
    from zonewise.daemon.status import Status
    from zonewise.kubelet.types import PodResources
    from zonewise.machine.discover import Scan
    from zonewise.machine.model.machine import Machine
    from zonewise.nfd.types import LocalFeatures
    from zonewise.rules.types import Evaluation
    from zonewise.usage.types import Usage

log = logging.getLogger(__name__)

KUBELET_BACKOFF = Backoff(base=0.1, cap=1.0)
"""Pauses between two polls of a kubelet that is down or not ready. The kubelet starts within a second or so, often
followed by a device plugin. The kubelet's socket and files wake the loop as well; the pauses cover changes that leave
no trace in a file."""

UNWATCHED_INTERVAL, QUIET_INTERVAL = 0.1, 1.0
"""Seconds between two polls of a kubelet that makes no cgroups (cgroupsPerQOS: false) and has pods. The second value
applies if nothing has changed for QUIET_AFTER seconds. The kubelet removes an ended pod from List at once, and from its
files up to ten seconds later. Nothing else on the node shows the end of a pod. A poll costs about 1.5 ms of CPU time.
"""
QUIET_AFTER = 10.0

_POLL_ONLY = frozenset({Reason.POLL})
EXIT_REASONS = frozenset({Reason.STOP, Reason.RELOAD})
"""Reasons that end the loop."""


class Events(Protocol):
    """The source of the events that wake the loop."""

    def wait(self, timeout: float | None) -> frozenset[Reason]:
        """Return the reasons to scan again; no reason after the timeout, in seconds."""
        ...


class MachineScanner(Protocol):
    """Scans the machine: a zonewise.machine Scanner."""

    def scan(self) -> Scan:
        """Return the current state of the machine."""
        ...


class KubeletPolls(Protocol):
    """Polls the kubelet: a KubeletPoller."""

    def poll(self, reasons: frozenset[Reason], /) -> PollResult:
        """Return the state of the kubelet. Raises KubeletError."""
        ...


class Sink(Protocol):
    """A destination of snapshots."""

    def submit(self, snapshot: Snapshot) -> None:
        """Accept a snapshot without waiting; it is published later."""
        ...


class AgentOptions(NamedTuple):
    """How to compute the reports and how often to publish them."""

    node_name: str
    options: NrtOptions
    excluded: Callable[[PodResources], bool]
    interval: float
    """Seconds after which to scan again without an event."""
    feature_groups: tuple[str, ...] = ()
    """Groups of raw features to publish in addition."""
    local_features: Callable[[], LocalFeatures] = lambda: NO_LOCAL_FEATURES
    """Returns the current content of the feature files."""
    label_config: Callable[[], LabelConfig] = lambda: DEFAULT_LABEL_CONFIG
    """Returns the current decisions of configuration files about labels."""
    rules: NodeRules | None = None
    """The rules to evaluate; if None, rules are not evaluated here."""
    health: HealthMonitor | None = None
    """Monitors the health of the hardware; None if health is off."""


class Agent:
    """One node's agent, from a start or a reload to the next."""

    def __init__(
        self,
        scanner: MachineScanner,
        kubelet: KubeletPolls | None,
        sinks: tuple[Sink, ...],
        options: AgentOptions,
        status: Status,
        meters: AgentMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Create an agent; without a kubelet it publishes neither usage nor a report."""
        self._scanner = scanner
        self._kubelet = kubelet
        self._sinks = sinks
        self._options = options
        self._status = status
        self._meters = meters
        self._health = options.health
        self._clock = clock
        self._draw = draw
        self._scan: Scan | None = None
        self._memory = SettledMemory()
        self._inputs: tuple[LocalFeatures, LabelConfig] | None = None
        self._features = Features({}, {}, {})
        self._labels = Labels({})
        self._publishes_labels = False
        self._failures = 0
        self._logged_problems: tuple[str, ...] = ()
        self._last: PollResult | None = None
        self._changed_at = clock()

    def run(self, events: Events) -> frozenset[Reason]:
        """Loop until a reason to exit occurs; return the reasons that came with it."""
        reasons = frozenset({Reason.START})
        next_scan = self._clock() + self._options.interval
        while not reasons & EXIT_REASONS:
            retry_after = self._run_guarded(reasons)
            if not reasons <= MACHINE_UNCHANGED:
                next_scan = self._clock() + self._options.interval
            left = max(0.0, next_scan - self._clock())
            again, why = (retry_after, Reason.RETRY) if retry_after is not None else (self._poll_after(), Reason.POLL)
            reasons = events.wait(min(again, left))
            if self._clock() >= next_scan:
                reasons |= {Reason.TIMER}  # in addition to the other reasons: a storm of events must not delay it
            elif not reasons:
                reasons = frozenset({why})
        return reasons

    def _poll_after(self) -> float:
        """Return the seconds after which to poll a kubelet that sends no events."""
        if self._last is None or not self._last.unwatched or not self._last.report.pods:
            return math.inf
        return UNWATCHED_INTERVAL if self._clock() - self._changed_at < QUIET_AFTER else QUIET_INTERVAL

    def _run_guarded(self, reasons: frozenset[Reason]) -> float | None:
        """Scan once and survive a defect. If the defect lasts, the agent becomes unhealthy for lack of a heartbeat."""
        try:
            return self.run_once(reasons)
        except Exception:  # the top of the loop: one malformed pod must not stop the publishing of labels
            log.exception("a scan failed because of a defect; published objects remain, and the agent retries")
            return self._retry_delay(False)

    def run_once(self, reasons: frozenset[Reason]) -> float | None:
        """Scan once and submit a snapshot; return the seconds until the next poll of the kubelet, None if the poll
        succeeded.
        """
        started = self._clock()
        for reason in reasons:
            self._meters.wakeups.labels(reason.value).inc()
        scan = self._rescan(reasons)
        before, (result, problems) = self._last, self._poll_kubelet(reasons)
        if result != before:
            self._last, self._changed_at = result, self._clock()
        elif reasons == _POLL_ONLY and result is not None:
            self._status.beat()
            return None
        if self._health is not None:
            self._health.check(scan.machine, None if result is None else result.report.pods, reasons)
        usage = self._compute_usage(scan.machine, result)
        if isinstance(usage, KubeletNotReady):
            usage, problems = None, (*problems, usage.reason)
        snapshot = self._make_snapshot(scan, result, usage, problems)
        self._meters.kubelet_ready.set(usage is not None)
        self._status.set_snapshot(snapshot)
        self._status.beat()
        for sink in self._sinks:
            sink.submit(snapshot)
        self._meters.scan_seconds.observe(self._clock() - started)
        self._log_problems(snapshot.problems)
        return self._retry_delay(usage is not None or self._kubelet is None)

    def _rescan(self, reasons: frozenset[Reason]) -> Scan:
        if self._scan is None or not reasons <= MACHINE_UNCHANGED:
            before = self._scan
            scan = self._scanner.scan()
            machine = self._memory.apply(scan.machine)
            local, config = inputs = (self._options.local_features(), self._options.label_config())
            if before is None or before.machine is not machine or inputs != self._inputs:
                worker = config.worker or DEFAULT_WORKER_CONFIG
                groups, name = self._options.feature_groups, self._options.node_name
                features = node_features(machine, groups, local, worker, name)
                self._labels, self._features = (
                    build_labels(machine, features, local, config),
                    published_features(features, worker),
                )
                self._publishes_labels = config.worker is not None and not config.worker.no_publish
                self._inputs = inputs
            # stored last: after a defect the next scan builds the labels again
            self._scan = scan if machine is scan.machine else scan._replace(machine=machine)
        return self._scan

    def _poll_kubelet(self, reasons: frozenset[Reason]) -> tuple[PollResult | None, tuple[str, ...]]:
        if self._kubelet is None:
            return None, ()
        if self._failures:
            reasons |= {Reason.RETRY}  # in addition to the other reasons: cached responses are no longer valid
        try:
            result = self._kubelet.poll(reasons)
        except KubeletError as error:
            return None, (f"the kubelet's allocations cannot be read: {error}",)
        return result, result.problems

    def _compute_usage(self, machine: Machine, result: PollResult | None) -> Usage | KubeletNotReady | None:
        if result is None:
            return None
        report = result.report
        if self._health is not None:
            report = report._replace(allocatable=self._health.without_failed(machine, report.allocatable))
        return node_usage(machine, report, excluded=self._options.excluded)

    def _make_snapshot(
        self, scan: Scan, result: PollResult | None, usage: Usage | None, problems: tuple[str, ...]
    ) -> Snapshot:
        nrt: dict[str, Any] | None = None
        config = result.report.config if result is not None else None
        if result is not None and usage is not None:
            name, options = self._options.node_name, self._options.options
            health = self._health.device_health() if self._health is not None else {}
            nrt = machine_to_nrt(scan.machine, name, usage, config, options=options, health=health)
            problems = (*problems, *usage.problems)
        labels, rules, rule_problems = self._apply_rules(scan.machine)
        problems = (*problems, *self._labels.problems, *rule_problems)
        snapshot = Snapshot(
            self._options.node_name,
            scan.machine,
            scan.runs,
            usage,
            config,
            problems,
            nrt,
            labels,
            self._features,
            rules,
        )
        if self._health is None:
            return snapshot
        return snapshot._replace(faults=self._health.faults, fault_counts=dict(self._health.counts))

    def _apply_rules(self, machine: Machine) -> tuple[dict[str, str] | None, Evaluation | None, tuple[str, ...]]:
        """Return the labels, overridden by those of rules; None if labels are not published or not known."""
        own = self._labels.values if self._publishes_labels else None
        if self._options.rules is None or self._inputs is None:
            return own, None, ()
        local, config = self._inputs
        state = self._options.rules.state(machine, local, config.worker or DEFAULT_WORKER_CONFIG)
        if state.evaluation is None:
            return None, None, state.problems
        labels = None if own is None else dict(sorted({**own, **state.evaluation.labels}.items()))
        return labels, state.evaluation, state.problems

    def _retry_delay(self, ready: bool) -> float | None:
        if ready:
            self._failures = 0
            return None
        self._failures += 1
        return KUBELET_BACKOFF.delay(self._failures - 1, self._draw())

    def _log_problems(self, problems: tuple[str, ...]) -> None:
        """Log each problem when it appears and when it is resolved, but not at every scan in between."""
        for problem in problems:
            if problem not in self._logged_problems:
                log.warning("%s", problem)
        for problem in self._logged_problems:
            if problem not in problems:
                log.info("resolved: %s", problem)
        self._logged_problems = problems
