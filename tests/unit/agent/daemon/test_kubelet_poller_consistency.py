"""What is read one after the other, while pods come and go in between, is told as of one moment."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import CONFIG, DEVICE, RESERVED, Books, Record, books, node_of
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
UNBORN, ADMITTED, RUNNING, ENDED, GONE = range(5)
"""The ages of a pod. One that was admitted gets its cgroup a little later, and one that ended keeps it a little."""


class World:
    """A node on which something happens before every answer: files, client and cgroups of a Kubelet in one."""

    def __init__(self, made: Books, happenings: list[list[int]], *, cgroups: bool) -> None:
        """Let pods, by their numbers, grow older: those of the first list before the first answer, and so on."""
        self._made = made
        self._ages = [RUNNING if record.alive else GONE for record in made.records]
        for number in {number for group in happenings[1:] for number in group if number < len(self._ages)}:
            self._ages[number] = UNBORN
        self._happenings: list[list[int]] = []
        self._to_come = happenings
        self._cgroups = cgroups
        self.problems = ()
        self.listed_in = self.now()

    def now(self) -> Books:
        """Return the books of this moment."""
        ages = zip(self._made.records, self._ages, strict=True)
        records = tuple(record._replace(alive=ADMITTED <= age <= RUNNING) for record, age in ages if age != UNBORN)
        return self._made._replace(records=records)

    def begin(self) -> None:
        """Let it begin to happen."""
        self._happenings = list(self._to_come)

    def happen(self) -> None:
        """Let happen what happens before the next answer."""
        for number in self._happenings.pop(0) if self._happenings else ():
            if number < len(self._ages) and self._ages[number] < GONE:
                self._ages[number] += 1

    # --- a state reader, a client, cgroups

    def read(self) -> StateReading:
        self.happen()
        return StateReading(self.now().report().state, ())

    def list(self) -> tuple[PodResources, ...]:
        self.happen()
        self.listed_in = self.now()
        return self.listed_in.report().pods

    def allocatable(self) -> Allocatable:
        return self._made.report().allocatable

    def uids(self) -> frozenset[str] | None:
        self.happen()
        ages = zip(self._made.records, self._ages, strict=True)
        having = frozenset(record.uid for record, age in ages if RUNNING <= age <= ENDED)
        return having if self._cgroups else None

    def forget(self) -> None:
        """Nothing is remembered."""


class Settings:
    """A configuration that never changes."""

    def read(self, *, refresh: bool) -> ConfigReading:
        del refresh
        return ConfigReading(CONFIG, None, "somewhere")


def usage_of(world: World, made: Books) -> Usage:
    """Ask once while nothing happens, and then as it does."""
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
    usage = node_usage(made.machine, kubelet.poll(STATE).report)
    assert isinstance(usage, Usage)
    return usage


def cpus_left(made: Books) -> CpuSet:
    held = CpuSet.union(one.cpus for record in made.records if record.alive for one in record.containers)
    return CpuSet.union(zone.cpus for zone in made.machine.zones) - RESERVED - held


def bytes_left(made: Books) -> int:
    held = sum(
        block.size for record in made.records if record.alive for one in record.containers for block in one.memory
    )
    return sum(block.size for block in made.report().allocatable.memory if block.type == "memory") - held


def devices_left(made: Books, zone: int) -> int:
    """Return how many devices near a zone nobody has."""
    held = {one for record in made.records if record.alive for of in record.containers for one in of.devices}
    return sum(zone in device.zones for device in set(made.devices) - held)


HAPPENINGS = st.lists(st.lists(st.integers(0, 6), max_size=2), max_size=2 * MAX_ATTEMPTS - 2)


@given(books(), HAPPENINGS)
def test_an_account_of_one_moment(made: Books, happenings: list[list[int]]) -> None:
    """Whoever comes or goes while it is read: the account is that of the moment in which List answered."""
    world = World(made, happenings, cgroups=False)
    try:
        usage = usage_of(world, made)
    except Unsettled:
        return
    then = node_usage(made.machine, world.listed_in.report())
    assert isinstance(then, Usage)
    assert usage == then


@given(books(), HAPPENINGS)
def test_nothing_is_promised_that_is_held(made: Books, happenings: list[list[int]]) -> None:
    """What is told as left was left in the moment in which List answered, or at the end, when cgroups were read."""
    world = World(made, happenings, cgroups=True)
    try:
        usage = usage_of(world, made)
    except Unsettled:
        return
    moments = (world.listed_in, world.now())
    told = CpuSet.union(zone.free_cpus for zone in usage.zones if zone.free_cpus is not None)
    assert told - cpus_left(moments[0]) - cpus_left(moments[1]) == CpuSet()
    assert sum(zone.amounts["memory"].available for zone in usage.zones) <= max(map(bytes_left, moments))
    for zone in usage.zones:
        left = zone.amounts.get(DEVICE)
        assert left is None or left.available <= max(devices_left(moment, zone.zone) for moment in moments)


@pytest.mark.parametrize("tries", [MAX_ATTEMPTS - 1, MAX_ATTEMPTS])
def test_pods_that_come_and_go_too_fast(tries: int) -> None:
    """After so many tries nothing is told, and the loop tries again."""
    made = _many()
    world = World(made, [[], *(group for number in range(tries) for group in ([number], []))], cgroups=False)
    if tries < MAX_ATTEMPTS:
        assert usage_of(world, made)
    else:
        with pytest.raises(Unsettled, match="come and go"):
            usage_of(world, made)


def _many() -> Books:
    """Return a node with a pod for every try, each with a CPU."""
    pods = (
        PodResources("ns", f"p{number}", (ContainerResources("c", CpuSet((number + 1,))),))
        for number in range(MAX_ATTEMPTS)
    )
    return Books(node_of((0, 1)), tuple(Record(pod.name, pod) for pod in pods))
