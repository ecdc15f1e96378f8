"""Sources that are read one after another while pods start and end are reported as of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import CONFIG, DEVICE, RESERVED, NodeHistory, Record, make_node, node_histories
from zonewise.daemon.events import Reason
from zonewise.daemon.kubelet_poller import MAX_ATTEMPTS, KubeletPoller, KubeletSources
from zonewise.daemon.metrics import AgentMetrics
from zonewise.kubelet.config_source import ConfigReading
from zonewise.kubelet.errors import Unsettled
from zonewise.kubelet.state import StateReading
from zonewise.kubelet.types import ContainerResources, PodResources
from zonewise.kubelet.unreported_devices import UnreportedDevices
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from zonewise.kubelet.cgroups import PodCgroups
    from zonewise.kubelet.config_source import ConfigSource
    from zonewise.kubelet.podresources.client import PodResourcesClient
    from zonewise.kubelet.state import StateReader
    from zonewise.kubelet.types import Allocatable

STATE = frozenset({Reason.STATE})
UNBORN, ADMITTED, RUNNING, ENDED, DELETED = range(5)
"""The ages of a pod. Its cgroup appears shortly after its admission and disappears shortly after its end."""


class World:
    """The files, the client and the cgroups of one node, which changes before every response."""

    def __init__(self, history: NodeHistory, happenings: list[list[int]], *, cgroups: bool) -> None:
        """Age the pods with these numbers: those of the first list before the first response, and so on."""
        self._history = history
        self._ages = [RUNNING if record.alive else DELETED for record in history.records]
        for number in {number for group in happenings[1:] for number in group if number < len(self._ages)}:
            self._ages[number] = UNBORN
        self._happenings: list[list[int]] = []
        self._to_come = happenings
        self._cgroups = cgroups
        self.problems = ()
        self.listed_in = self.now()

    def now(self) -> NodeHistory:
        """Return the current history."""
        ages = zip(self._history.records, self._ages, strict=True)
        records = tuple(record._replace(alive=ADMITTED <= age <= RUNNING) for record, age in ages if age != UNBORN)
        return self._history._replace(records=records)

    def begin(self) -> None:
        """Start the changes."""
        self._happenings = list(self._to_come)

    def happen(self) -> None:
        """Apply the changes before the next response."""
        for number in self._happenings.pop(0) if self._happenings else ():
            if number < len(self._ages) and self._ages[number] < DELETED:
                self._ages[number] += 1

    # --- the interfaces of a state reader, a client and cgroups

    def read(self) -> StateReading:
        self.happen()
        return StateReading(self.now().report().state, ())

    def list(self) -> tuple[PodResources, ...]:
        self.happen()
        self.listed_in = self.now()
        return self.listed_in.report().pods

    def socket_identity(self) -> tuple[int, int, int]:
        return 1, 1, 1

    def allocatable(self) -> Allocatable:
        return self._history.report().allocatable

    def uids(self) -> frozenset[str] | None:
        self.happen()
        ages = zip(self._history.records, self._ages, strict=True)
        having = frozenset(record.uid for record, age in ages if RUNNING <= age <= ENDED)
        return having if self._cgroups else None

    def forget(self) -> None:
        """Do nothing: the world caches nothing."""


class Settings:
    """A configuration that never changes."""

    def read(self, *, refresh: bool) -> ConfigReading:
        del refresh
        return ConfigReading(CONFIG, None, "somewhere")


def compute_usage(world: World, history: NodeHistory) -> Usage:
    """Poll once before the changes and once during them; return the second usage."""
    sources = KubeletSources(
        cast("PodResourcesClient", world),
        cast("StateReader", world),
        cast("ConfigSource", Settings()),
        UnreportedDevices("/nowhere", "/nowhere"),
        cast("PodCgroups", world),
    )
    kubelet = KubeletPoller(sources, AgentMetrics())
    kubelet.poll(STATE)
    world.begin()
    usage = node_usage(history.machine, kubelet.poll(STATE).report)
    assert isinstance(usage, Usage)
    return usage


def free_cpus(history: NodeHistory) -> CpuSet:
    held = CpuSet.union(container.cpus for record in history.records if record.alive for container in record.containers)
    return CpuSet.union(zone.cpus for zone in history.machine.zones) - RESERVED - held


def free_bytes(history: NodeHistory) -> int:
    held = sum(
        block.size
        for record in history.records
        if record.alive
        for container in record.containers
        for block in container.memory
    )
    return sum(block.size for block in history.report().allocatable.memory if block.type == "memory") - held


def free_devices(history: NodeHistory, zone: int) -> int:
    """Return how many devices near a zone are free."""
    held = {item for record in history.records if record.alive for entry in record.containers for item in entry.devices}
    return sum(zone in device.zones for device in set(history.devices) - held)


HAPPENINGS = st.lists(st.lists(st.integers(0, 6), max_size=2), max_size=2 * MAX_ATTEMPTS - 2)


@given(node_histories(), HAPPENINGS)
def test_usage_of_one_moment(history: NodeHistory, happenings: list[list[int]]) -> None:
    """The usage is that of the moment of List, whichever pods start or end during the poll."""
    world = World(history, happenings, cgroups=False)
    try:
        usage = compute_usage(world, history)
    except Unsettled:
        return
    then = node_usage(history.machine, world.listed_in.report())
    assert isinstance(then, Usage)
    assert usage == then


@given(node_histories(), HAPPENINGS)
def test_nothing_in_use_is_available(history: NodeHistory, happenings: list[list[int]]) -> None:
    """Whatever is available was free at the moment of List, or at the end, when cgroups were read."""
    world = World(history, happenings, cgroups=True)
    try:
        usage = compute_usage(world, history)
    except Unsettled:
        return
    moments = (world.listed_in, world.now())
    reported = CpuSet.union(zone.free_cpus for zone in usage.zones if zone.free_cpus is not None)
    assert reported - free_cpus(moments[0]) - free_cpus(moments[1]) == CpuSet()
    assert sum(zone.amounts["memory"].available for zone in usage.zones) <= max(map(free_bytes, moments))
    for zone in usage.zones:
        left = zone.amounts.get(DEVICE)
        assert left is None or left.available <= max(free_devices(moment, zone.zone) for moment in moments)


@pytest.mark.parametrize("tries", [MAX_ATTEMPTS - 1, MAX_ATTEMPTS])
def test_pods_that_come_and_go_too_fast(tries: int) -> None:
    """After MAX_ATTEMPTS there is no report, and the loop retries."""
    history = _many()
    world = World(history, [[], *(group for number in range(tries) for group in ([number], []))], cgroups=False)
    if tries < MAX_ATTEMPTS:
        assert compute_usage(world, history)
    else:
        with pytest.raises(Unsettled, match="start and end faster"):
            compute_usage(world, history)


def _many() -> NodeHistory:
    """Return a node with a pod for every attempt, each with a CPU."""
    pods = (
        PodResources("ns", f"p{number}", (ContainerResources("c", CpuSet((number + 1,))),))
        for number in range(MAX_ATTEMPTS)
    )
    return NodeHistory(make_node((0, 1)), tuple(Record(pod.name, pod) for pod in pods))
