"""The loop: wait until something changed, look, say what is new to the publishers."""

from __future__ import annotations

import logging
import random
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from zonewise.daemon.events import Reason
from zonewise.daemon.status import Snapshot
from zonewise.kubelet.errors import KubeletError
from zonewise.objects.features import Features, node_features
from zonewise.objects.labels import Labels, build_labels
from zonewise.objects.nrt import NrtOptions, machine_to_nrt
from zonewise.usage.node_usage import KubeletNotReady, node_usage
from zonewise_common.kube.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.daemon.kubelet_poller import KubeletPoller, PollResult
    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.daemon.status import Status
    from zonewise.kubelet.types import PodResources
    from zonewise.machine.discover import Scan
    from zonewise.machine.model.machine import Machine
    from zonewise.usage.types import Usage

log = logging.getLogger(__name__)

KUBELET_BACKOFF = Backoff(base=0.1, cap=5.0)
"""How soon a kubelet that is down or not ready is asked again: it starts within a second or so, and often a device
plugin follows. Its socket and files wake us as well; this is for what leaves no trace in a file."""

KUBELET_ONLY = frozenset({Reason.STATE, Reason.PODS, Reason.DEVICES, Reason.SOCKET, Reason.RETRY})
"""Reasons that say nothing about the machine."""
EXIT_REASONS = frozenset({Reason.STOP, Reason.RELOAD})


class Events(Protocol):
    """What wakes the loop."""

    def wait(self, timeout: float | None) -> frozenset[Reason]:
        """Return why to look again; nothing after the timeout, in seconds."""
        ...


class MachineScanner(Protocol):
    """What looks at the machine: a zonewise.machine Scanner."""

    def scan(self) -> Scan:
        """Return what the machine is now."""
        ...


class Sink(Protocol):
    """Where what was found goes."""

    def submit(self, snapshot: Snapshot) -> None:
        """Take it, at once; it is published by and by."""
        ...


class AgentOptions(NamedTuple):
    """What is asked of the reports."""

    node_name: str
    options: NrtOptions
    excluded: Callable[[PodResources], bool]
    interval: float
    """Seconds after which to look again though nothing is heard."""


class Agent:
    """One node's agent, from a start or a reload to the next."""

    def __init__(
        self,
        scanner: MachineScanner,
        kubelet: KubeletPoller,
        sinks: tuple[Sink, ...],
        options: AgentOptions,
        status: Status,
        meters: AgentMetrics,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._scanner = scanner
        self._kubelet = kubelet
        self._sinks = sinks
        self._wishes = options
        self._status = status
        self._meters = meters
        self._clock = clock
        self._draw = draw
        self._scan: Scan | None = None
        self._features = Features({}, {}, {})
        self._labels = Labels({})
        self._failures = 0
        self._said: tuple[str, ...] = ()

    def run(self, events: Events) -> frozenset[Reason]:
        """Go round until a reason ends it; return those reasons."""
        reasons = frozenset({Reason.START})
        due = self._clock() + self._wishes.interval
        while not reasons & EXIT_REASONS:
            again = self._survived(reasons)
            if not reasons <= KUBELET_ONLY:
                due = self._clock() + self._wishes.interval
            left = max(0.0, due - self._clock())
            reasons = events.wait(left if again is None else min(again, left))
            if self._clock() >= due:
                reasons |= {Reason.TIMER}  # beside whatever else came: a storm of events must not put it off
            elif not reasons:
                reasons = frozenset({Reason.RETRY})
        return reasons

    def _survived(self, reasons: frozenset[Reason]) -> float | None:
        """Look once, and live on where that fails; the heart does not beat then, so that it cannot go on for long."""
        try:
            return self.run_once(reasons)
        except Exception:  # the top of the loop: one pod that we cannot make sense of must not end publishing labels
            log.exception("a look at the node failed by a defect; what is published stays, and we try again")
            return self._pause(False)

    def run_once(self, reasons: frozenset[Reason]) -> float | None:
        """Look once and offer what is found; return after how many seconds to ask the kubelet again, if at all."""
        started = self._clock()
        for reason in reasons:
            self._meters.wakeups.labels(reason.value).inc()
        scan = self._scanned(reasons)
        answer, trouble = self._asked(reasons)
        usage = self._accounted(scan.machine, answer)
        if isinstance(usage, KubeletNotReady):
            usage, trouble = None, (*trouble, usage.reason)
        snapshot = self._composed(scan, answer, usage, trouble)
        self._meters.kubelet_ready.set(usage is not None)
        self._status.set_snapshot(snapshot)
        self._status.beat()
        for sink in self._sinks:
            sink.submit(snapshot)
        self._meters.scan_seconds.observe(self._clock() - started)
        self._tell(snapshot.problems)
        return self._pause(usage is not None)

    def _scanned(self, reasons: frozenset[Reason]) -> Scan:
        if self._scan is None or not reasons <= KUBELET_ONLY:
            before = self._scan
            self._scan = self._scanner.scan()
            if before is None or before.machine is not self._scan.machine:
                self._features = node_features(self._scan.machine)
                self._labels = build_labels(self._scan.machine, self._features)
        return self._scan

    def _asked(self, reasons: frozenset[Reason]) -> tuple[PollResult | None, tuple[str, ...]]:
        if self._failures:
            reasons |= {Reason.RETRY}  # beside whatever woke us: what it told before counts no more
        try:
            answer = self._kubelet.poll(reasons)
        except KubeletError as error:
            return None, (f"the kubelet does not tell who holds what: {error}",)
        return answer, answer.problems

    def _accounted(self, machine: Machine, answer: PollResult | None) -> Usage | KubeletNotReady | None:
        if answer is None:
            return None
        return node_usage(machine, answer.report, excluded=self._wishes.excluded)

    def _composed(
        self, scan: Scan, answer: PollResult | None, usage: Usage | None, trouble: tuple[str, ...]
    ) -> Snapshot:
        nrt: dict[str, Any] | None = None
        config = answer.report.config if answer is not None else None
        if answer is not None and usage is not None:
            name, options = self._wishes.node_name, self._wishes.options
            nrt = machine_to_nrt(scan.machine, name, usage, config, options=options)
            trouble = (*trouble, *usage.problems)
        trouble = (*trouble, *self._labels.problems)
        labels, features = self._labels.values, self._features
        return Snapshot(self._wishes.node_name, scan.machine, scan.runs, usage, config, trouble, nrt, labels, features)

    def _pause(self, ready: bool) -> float | None:
        if ready:
            self._failures = 0
            return None
        self._failures += 1
        return KUBELET_BACKOFF.delay(self._failures - 1, self._draw())

    def _tell(self, problems: tuple[str, ...]) -> None:
        """Log each problem when it comes and when it has gone, and not every time it is still there."""
        for problem in problems:
            if problem not in self._said:
                log.warning("%s", problem)
        for problem in self._said:
            if problem not in problems:
                log.info("no longer so: %s", problem)
        self._said = problems
