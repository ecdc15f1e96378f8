"""Polls the kubelet for one consistent state, and makes no call whose response cannot have changed.

Two properties of the kubelet make its responses temporarily incomplete. KubeletStart covers the first seconds after its
start, NewPods the milliseconds between a pod's admission and its cgroup.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.ended_pods import EndedPods
from zonewise.daemon.events import Reason
from zonewise.kubelet.errors import KubeletError, Unsettled
from zonewise.kubelet.types import KubeletReport
from zonewise.usage.pod_matching import incomplete_list_reason, is_listed, match_pods
from zonewise.usage.policies import not_ready_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import TypeVar

    from zonewise.daemon.metrics import AgentMetrics
    from zonewise.kubelet.cgroups import PodCgroups
    from zonewise.kubelet.config_source import ConfigSource
    from zonewise.kubelet.podresources.client import PodResourcesClient, SocketIdentity
    from zonewise.kubelet.state import StateReader, StateReading
    from zonewise.kubelet.types import Allocatable, PodResources, StateFiles
    from zonewise.kubelet.unreported_devices import UnreportedDevices
    from zonewise.usage.pod_matching import PodName

    T = TypeVar("T")

PODS_ONLY = frozenset({Reason.STATE, Reason.PODS, Reason.POLL})
"""Reasons that mean that pods came or went. Allocatable resources are then unchanged. Requesting them too would double
the calls at each pod start, and the kubelet allows 100 a second for all clients together."""

MAX_ATTEMPTS = 5
"""Maximum number of List calls if the checkpoint files change meanwhile; List takes milliseconds."""


class PollResult(NamedTuple):
    """The state of the kubelet, and the problems with its responses and files."""

    report: KubeletReport
    problems: tuple[str, ...]
    unwatched: bool = False
    """Whether a pod may end without an event: the kubelet creates no cgroups, or they are not visible."""


class KubeletSources(NamedTuple):
    """The readers of the kubelet's API, files and configuration."""

    client: PodResourcesClient
    state: StateReader
    config: ConfigSource
    unreported_devices: UnreportedDevices
    cgroups: PodCgroups
    own_pod: PodName | None = None
    """The pod that the agent runs in, if known."""


class KubeletPoller:
    """Polls the kubelet of this node."""

    def __init__(
        self, sources: KubeletSources, meters: AgentMetrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = sources
        self._meters = meters
        self._start = KubeletStart(clock, sources.own_pod)
        self._new_pods = NewPods(clock)
        self._ended_pods = EndedPods()
        self._allocatable: Allocatable | None = None
        self._registered: Mapping[str, tuple[str, ...]] = {}
        self._socket: SocketIdentity | None = None

    def poll(self, reasons: frozenset[Reason]) -> PollResult:
        """Return the state of the kubelet. Raises KubeletError if its allocations cannot be read.

        The client repeats calls over a restart of the kubelet, and the event of the new socket may come later. So the
        socket is checked before and after the calls.
        """
        socket = self._sources.client.socket_identity()
        if Reason.SOCKET in reasons or self._socket not in (None, socket):
            self._forget()
        self._socket = socket
        if not reasons <= PODS_ONLY:
            self._allocatable = None
        state, pods, allocatable = self._consistent_state()
        if self._sources.client.socket_identity() != socket:
            self._forget()
            raise Unsettled("the kubelet has restarted meanwhile")
        reading = self._sources.config.read(refresh=not reasons <= PODS_ONLY)
        cgroups = self._sources.cgroups.uids()
        active = self._new_pods.active_uids(cgroups, state.files.pod_uids())
        report = KubeletReport(pods, allocatable, reading.config, state.files, active)
        sources_ready = self._start.check(report)
        ended = self._ended_pods.observe(pods, state.files, cgroups)
        report = report._replace(ended=ended, sources_ready=sources_ready)
        problems = [*self._sources.client.problems, *state.problems]
        if reading.problem is not None:
            problems.append(reading.problem)
        return PollResult(report, tuple(problems), cgroups is None)

    def close(self) -> None:
        """End calls in progress."""
        self._sources.client.close()

    def _consistent_state(self) -> tuple[StateReading, tuple[PodResources, ...], Allocatable]:
        """Return files and List from one moment: the files were the same before and after List.

        Invariant: the returned List and files describe the same pods.

        1. List reads the kubelet's memory, and the files follow the memory. So List is never older than files that were
           read before it.
        2. Without the second reading the files could be older than List. A pod that only List has may hold resources of
           its init containers, which List omits.
        3. Without the first reading List could be older than the files. A pod that only the files have looks like a
           deleted pod.
        """
        before = self._sources.state.read()
        for _ in range(MAX_ATTEMPTS):
            allocatable = self._complete_allocatable(before.files)
            pods = self._counted("List", self._sources.client.list)
            after = self._sources.state.read()
            if after == before:
                return after, pods, allocatable
            before = after
        raise Unsettled("pods start and end faster than their allocations can be read")

    def _complete_allocatable(self, files: StateFiles) -> Allocatable:
        """Return the allocatable resources; request them again if the registered devices changed."""
        registered = files.devices.registered if files.devices is not None else {}
        if self._allocatable is None or registered != self._registered:
            self._allocatable = self._counted("GetAllocatableResources", self._sources.client.allocatable)
            self._registered = registered
        return self._sources.unreported_devices.added_to(self._allocatable, registered)

    def _counted(self, method: str, call: Callable[[], T]) -> T:
        self._meters.kubelet_requests.labels(method).inc()
        try:
            return call()
        except KubeletError as error:
            self._meters.kubelet_errors.labels(method, type(error).__name__).inc()
            self._forget()
            raise

    def _forget(self) -> None:
        """Drop everything that may differ after a restart of the kubelet."""
        self._allocatable = None
        self._sources.cgroups.forget()
        self._ended_pods.note_restart()
        self._start.note_restart()


SETTLING_SECONDS = 10.0
"""Seconds. List is complete a second or two after the kubelet's managers run. Within ten seconds they remove deleted
pods from cpu_manager_state (cpuManagerReconcilePeriod). After that the report is accepted even if it seems incomplete.
"""
STEADY_SECONDS = 3.0
"""Seconds without a new pod in List after which List is complete, if it has any pod of the API server. The kubelet
takes these over in one step, and lists each before it admits it (pkg/kubelet/kubelet.go HandlePodAdditions)."""

_ALWAYS = float("-inf")


class KubeletStart:
    """Whether the kubelet has just started, so that its List is rejected as long as pods are missing.

    | state | event | next state |
    |---|---|---|
    | any | restart noted, or managers not ready, or own pod left List or returned | starting, no deadline |
    | starting | first report of ready managers | starting, deadline in SETTLING_SECONDS |
    | starting | complete report | settled |
    | starting | no new pod for STEADY_SECONDS, and List has some of the API server's pods | settled |
    | starting | deadline passed, own pod was listed before and no longer is | starting, sources not ready |
    | starting | deadline passed, otherwise | settled |

    A kubelet whose sources are not ready has not yet received the API server's pods, and releases nothing
    (pkg/kubelet/config SourcesReady). The agent's own pod is alive, so a List without it proves that. If that pod is
    not known, a listed pod with resources in the checkpoints counts as one of the API server's. Static pods rarely have
    any.
    """

    def __init__(self, clock: Callable[[], float], own_pod: PodName | None) -> None:
        """Start with a kubelet that has been running; `own_pod` is the pod that the agent runs in, if known."""
        self._clock = clock
        self._own_pod = own_pod
        self._own_listed = True
        self._own_seen = False
        self._settled = True
        self._end: float | None = None
        """When an incomplete report is accepted; None before the managers run."""
        self._names: frozenset[PodName] = frozenset()
        """Names of the pods that List has had since the start."""
        self._steady_at = math.inf
        """When List will have had no new pod for STEADY_SECONDS."""

    def note_restart(self) -> None:
        """Enter the state "starting": the kubelet restarted, or may have."""
        self._settled, self._end = False, None
        self._names, self._steady_at = frozenset(), math.inf

    def check(self, report: KubeletReport) -> bool:
        """Return whether the kubelet's sources are ready. Raise Unsettled if a report may lack pods.

        A report from before the managers run passes: node_usage detects it.
        """
        if not_ready_reason(report) is not None:
            self.note_restart()
            return True
        listed = self._own_pod is None or is_listed(self._own_pod, report.pods)
        if listed != self._own_listed:
            self.note_restart()
        self._own_listed = listed
        self._own_seen |= listed
        if self._settled:
            return True
        now = self._clock()
        self._end = now + SETTLING_SECONDS if self._end is None else self._end
        reason = incomplete_list_reason(report, self._own_pod)
        if reason is not None and now < self._end and not self._is_steady(report, now):
            raise Unsettled(reason)
        self._settled = listed or not self._own_seen
        return self._settled

    def _is_steady(self, report: KubeletReport, now: float) -> bool:
        names = frozenset((pod.namespace, pod.name) for pod in report.pods)
        if math.isinf(self._steady_at) or not names <= self._names:
            self._names |= names
            self._steady_at = now + STEADY_SECONDS
        return now >= self._steady_at and self._has_pods_of_the_server(report)

    def _has_pods_of_the_server(self, report: KubeletReport) -> bool:
        if self._own_pod is not None:
            return is_listed(self._own_pod, report.pods)
        return bool(match_pods(report.pods, report.state, report.active).pods)


class NewPods:
    """Pods that are in the kubelet's files but do not have a cgroup yet.

    The cgroup follows a pod's admission within milliseconds, unless the network is not ready. A rejected pod looks the
    same and never gets a cgroup.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start with pods that have all been known before."""
        self._clock = clock
        self._since: dict[str, float] | None = None

    def active_uids(self, active: frozenset[str] | None, recorded: Iterable[str]) -> frozenset[str] | None:
        """Return the UIDs of pods that have a cgroup, and of recorded pods that are new and have never had one."""
        now = self._clock()
        before = dict.fromkeys(recorded, _ALWAYS) if self._since is None else self._since
        alive = active or frozenset()
        self._since = {uid: _ALWAYS if uid in alive else before.get(uid, now) for uid in recorded}
        if active is None:
            return None
        return active.union(uid for uid, since in self._since.items() if now - since < SETTLING_SECONDS)
