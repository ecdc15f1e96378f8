"""Asks the kubelet what there is to know at one moment, and no more often than it changes."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.events import Reason
from zonewise.daemon.settling import KubeletStart, NewPods
from zonewise.kubelet.errors import KubeletError, Unsettled
from zonewise.kubelet.types import Allocatable, KubeletReport

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import TypeVar

    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.kubelet.cgroups import PodCgroups
    from zonewise.kubelet.config_source import ConfigSource
    from zonewise.kubelet.podresources.client import PodResourcesClient
    from zonewise.kubelet.state import StateReader, StateReading
    from zonewise.kubelet.types import PodResources, StateFiles
    from zonewise.kubelet.unreported_devices import UnreportedDevices
    from zonewise.usage.pod_list import PodName

    T = TypeVar("T")

PODS_ONLY = frozenset({Reason.STATE, Reason.PODS})
"""Reasons that say pods came or went and nothing else: what the kubelet could give at all is then as before, and
asking for it too would double the calls at each pod start, and the kubelet takes 100 a second from all clients."""

MAX_ATTEMPTS = 5
"""How often the files may change while List answers, which takes milliseconds."""


class PollResult(NamedTuple):
    """What the kubelet told, and what was odd about it."""

    report: KubeletReport
    problems: tuple[str, ...]


class KubeletSources(NamedTuple):
    """Where it is known from."""

    client: PodResourcesClient
    state: StateReader
    config: ConfigSource
    unreported_devices: UnreportedDevices
    cgroups: PodCgroups
    own_pod: PodName | None = None
    """The pod that we run in, where we know it."""


class KubeletPoller:
    """The kubelet of this node."""

    def __init__(
        self, sources: KubeletSources, meters: AgentMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._from = sources
        self._meters = meters
        self._start = KubeletStart(clock, sources.own_pod)
        self._newcomers = NewPods(clock)
        self._allocatable: Allocatable | None = None
        self._registered: Mapping[str, tuple[str, ...]] = {}

    def poll(self, reasons: frozenset[Reason]) -> PollResult:
        """Return what there is to know. Raises KubeletError where the kubelet does not tell who holds what."""
        if Reason.SOCKET in reasons:
            self._forget()
        if not reasons <= PODS_ONLY:
            self._allocatable = None
        state, pods, allocatable = self._moment()
        reading = self._from.config.read(refresh=not reasons <= PODS_ONLY)
        active = self._newcomers.active_uids(self._from.cgroups.uids(), state.files.pod_uids())
        report = KubeletReport(pods, allocatable, reading.config, state.files, active)
        self._start.check(report)
        problems = [*self._from.client.problems, *state.problems]
        if reading.problem is not None:
            problems.append(reading.problem)
        return PollResult(report, tuple(problems))

    def close(self) -> None:
        """End calls under way."""
        self._from.client.close()

    def _moment(self) -> tuple[StateReading, tuple[PodResources, ...], Allocatable]:
        """Return what the files and List say of one moment: the files were the same before and after List.

        List is never behind the files. Without the second reading it could be before them, and a pod that only List
        has yet may hold what List does not tell, for its init containers; without the first the files could be before
        List, and a pod that only they have yet looks as one that is gone.
        """
        before = self._from.state.read()
        for _ in range(MAX_ATTEMPTS):
            allocatable = self._all_allocatable(before.files)
            pods = self._counted("List", self._from.client.list)
            after = self._from.state.read()
            if after == before:
                return after, pods, allocatable
            before = after
        raise Unsettled("pods come and go faster than it can be read who holds what")

    def _all_allocatable(self, files: StateFiles) -> Allocatable:
        """Return what can be given, asked anew where other devices are registered than when it was asked last."""
        registered = files.devices.registered if files.devices is not None else {}
        if self._allocatable is None or registered != self._registered:
            self._allocatable = self._counted("GetAllocatableResources", self._from.client.allocatable)
            self._registered = registered
        return self._from.unreported_devices.added_to(self._allocatable, registered)

    def _counted(self, method: str, call: Callable[[], T]) -> T:
        self._meters.kubelet_requests.labels(method).inc()
        try:
            return call()
        except KubeletError as error:
            self._meters.kubelet_errors.labels(method, type(error).__name__).inc()
            self._forget()
            raise

    def _forget(self) -> None:
        """Forget what may be other after a kubelet's start."""
        self._allocatable = None
        self._from.cgroups.forget()
        self._start.note_restart()
