"""The agent's loop with fakes around it: a machine, a kubelet, events, and a clock that tests advance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from support.clock import Clock
from support.kubelets import GPU, pod
from support.node_trees import COLLECTORS
from support.trees import GIB, Shape, machine_tree
from zonewise.daemon.agent import Agent, AgentOptions
from zonewise.daemon.kubelet_poller import KubeletPoller, KubeletSources
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.status import Snapshot, Status
from zonewise.kubelet.config_source import ConfigReading
from zonewise.kubelet.errors import BadResponse, KubeletUnavailable
from zonewise.kubelet.state import StateReading
from zonewise.kubelet.types import Allocatable, KubeletReport, PodResources, StateFiles
from zonewise.kubelet.unreported_devices import UnreportedDevices
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.nfd.types import NO_LOCAL_FEATURES
from zonewise.objects.labels import DEFAULT_LABEL_CONFIG
from zonewise.objects.nrt import NrtOptions
from zonewise.usage.node_usage import exclude_none
from zonewise_sandbox.kubelet import STATIC, SimulatedDevice, even_zones
from zonewise_sandbox.kubelet.container_manager import ContainerManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.daemon.agent import Sink
    from zonewise.daemon.events import Reason
    from zonewise.kubelet.cgroups import PodCgroups
    from zonewise.kubelet.config_source import ConfigSource
    from zonewise.kubelet.podresources.client import PodResourcesClient
    from zonewise.kubelet.state import StateReader

NODE = "node-7"
INTERVAL = 60.0
OK, DOWN, STARTING, FORGETFUL, GARBLED = "ok", "down", "starting", "forgetful", "garbled"
"""Behaviours of a kubelet. A starting one has no allocatable resources yet; a forgetful one lists no pods."""
OWN = pod("agent", guaranteed=False)
"""The agent's own pod."""

SCAN = Scanner(MemoryFiles(machine_tree(Shape(2, 1, 8, 2, 8)).items()), collectors=COLLECTORS).scan()


class FakeKubelet:
    """Everything that the loop polls: client, files and configuration, on the simulated kubelet's managers."""

    def __init__(self) -> None:
        devices = [SimulatedDevice(GPU, f"gpu-{number}", (number // 2,)) for number in range(4)]
        self.managers = ContainerManager(even_zones(2, 8, memory=4 * GIB), devices, STATIC)
        self.managers.admit(OWN)
        self.mood = OK
        self.restarts = 0
        self.calls: list[str] = []
        self.problems: tuple[str, ...] = ()
        self.last_pods: tuple[PodResources, ...] = ()
        self.last_allocatable = Allocatable()

    # --- a PodResourcesClient

    def list(self) -> tuple[PodResources, ...]:
        self.calls.append("List")
        self._respond("List")
        self.last_pods = () if self.mood == FORGETFUL else self.managers.pod_resources()
        return self.last_pods

    def socket_identity(self) -> tuple[int, int, int]:
        return 1, 1, self.restarts

    def allocatable(self) -> Allocatable:
        self.calls.append("GetAllocatableResources")
        self._respond("GetAllocatableResources")
        self.last_allocatable = Allocatable() if self.mood == STARTING else self.managers.allocatable()
        return self.last_allocatable

    def close(self) -> None:
        self.calls.append("close")

    def _respond(self, method: str) -> None:
        if self.mood == DOWN:
            raise KubeletUnavailable(f"{method} on k.sock: cannot connect: Connection refused")
        if self.mood == GARBLED:
            raise BadResponse(f"{method} on k.sock: no message")

    def report(self) -> KubeletReport:
        """Return the last report."""
        return KubeletReport(self.last_pods, self.last_allocatable, STATIC)


class FakeFiles:
    """State files that are absent."""

    def read(self) -> StateReading:
        return StateReading(StateFiles(), ())


class FakeCgroups:
    """Cgroups of pods: readable, but with none of the pods that have entries in files."""

    def __init__(self) -> None:
        self.visible = True

    def uids(self) -> frozenset[str] | None:
        return frozenset() if self.visible else None

    def forget(self) -> None:
        """Do nothing."""


class FakeConfig:
    """A configuration that never changes."""

    def __init__(self) -> None:
        self.refreshes: list[bool] = []
        self.problem: str | None = None

    def read(self, *, refresh: bool = True) -> ConfigReading:
        self.refreshes.append(refresh)
        return ConfigReading(STATIC, self.problem, "somewhere")


class FakeScanner:
    """Returns the same machine each time, and counts the scans."""

    def __init__(self) -> None:
        self.count = 0
        self.result = SCAN

    def scan(self) -> Scan:
        self.count += 1
        return self.result


class FakeEvents:
    """Returns events after given times, then a reason to stop. `waited` has the timeouts that the loop passed."""

    def __init__(self, clock: Clock, script: Iterable[tuple[float, Iterable[Reason]]], last: Reason) -> None:
        self._clock = clock
        self._script = list(script)
        self._last = last
        self.waited: list[float | None] = []

    def wait(self, timeout: float | None) -> frozenset[Reason]:
        self.waited.append(timeout)
        if not self._script:
            return frozenset({self._last})
        seconds, reasons = self._script[0]
        if timeout is not None and timeout < seconds:
            self._script[0] = (seconds - timeout, reasons)
            self._clock.advance(timeout)
            return frozenset()
        del self._script[0]
        self._clock.advance(seconds)
        return frozenset(reasons)


class RecordingSink:
    """A sink that records everything."""

    def __init__(self) -> None:
        self.snapshots: list[Snapshot] = []

    def submit(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)

    @property
    def published(self) -> dict[str, Any] | None:
        """The most recently published report; None if there is none."""
        return next((snapshot.nrt for snapshot in reversed(self.snapshots) if snapshot.nrt is not None), None)


DEFAULT_OPTIONS = NrtOptions()


class Loop:
    """An agent with fakes for everything around it."""

    def __init__(
        self, excluded: Callable[[PodResources], bool] = exclude_none, options: NrtOptions = DEFAULT_OPTIONS
    ) -> None:
        self.clock = Clock()
        self.kubelet = FakeKubelet()
        self.config = FakeConfig()
        self.cgroups = FakeCgroups()
        self.scanner = FakeScanner()
        self.sink = RecordingSink()
        self.meters = AgentMetrics()
        self.status = Status(self.clock)
        sources = KubeletSources(
            cast("PodResourcesClient", self.kubelet),
            cast("StateReader", FakeFiles()),
            cast("ConfigSource", self.config),
            UnreportedDevices("/nowhere", "/nowhere"),
            cast("PodCgroups", self.cgroups),
            (OWN.namespace, OWN.name),
        )
        self._kubelet = KubeletPoller(sources, self.meters, self.clock)
        self.local_features = NO_LOCAL_FEATURES
        self.label_config = DEFAULT_LABEL_CONFIG
        self._wishes = AgentOptions(
            NODE,
            options,
            excluded,
            INTERVAL,
            local_features=lambda: self.local_features,
            label_config=lambda: self.label_config,
        )
        self.agent = self.agent_for(self.sink)

    def agent_for(self, *sinks: Sink) -> Agent:
        """Return another agent with other sinks."""
        parts = self.scanner, self._kubelet, sinks, self._wishes, self.status, self.meters
        return Agent(*parts, clock=self.clock, draw=lambda: 1.0)

    def run_once(self, *reasons: Reason) -> float | None:
        return self.agent.run_once(frozenset(reasons))

    def count(self, name: str, **labels: str) -> float:
        return self.meters.registry.get_sample_value(name, labels) or 0.0
