"""The zone that each PCI function is nearest to.

The firmware often does not name it. Then these sources follow in order: the CPUs that the kernel calls local, the
physical function of a virtual one, the bridges above. Without any source the zone is unknown, as in a virtual machine
that shows -1 for each device. A driver may override the zone later (NVML's memory affinity). `zone_source` names the
source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.pci.classes import is_endpoint
from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.reader import first_few
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.zone import Zone
    from zonewise.machine.reader import Reader

_SHOWN = 3  # number of addresses that a problem of many functions names


class _ZoneEvidence(NamedTuple):
    """The zone of a function, with the evidence for it."""

    zone: int
    source: str
    """The evidence, as in PciFunction.zone_source."""
    path: str
    value: object
    rule: str


def nearest_cpu_zone(zones: Iterable[Zone], zone: Zone) -> int | None:
    """Return the only zone with CPUs at the smallest SLIT distance from a zone; None if two zones are equally near.

    Source: ACPI specification, System Locality Information Table. The GPU memory of a GB200 is a zone without CPUs; in
    its row the processor of that GPU has the smaller distance.
    """
    near = sorted(
        (distance, neighbour.id)
        for neighbour in zones
        if neighbour.cpus and (distance := zone.distances.get(str(neighbour.id))) is not None
    )
    if not near or (len(near) > 1 and near[0][0] == near[1][0]):
        return None
    return near[0][1]


class _ZoneResolver:
    """Resolves the zones of one machine's functions; each function is evaluated only once."""

    def __init__(self, zones: tuple[Zone, ...], functions: tuple[PciFunction, ...]) -> None:
        self._zones = {zone.id: zone for zone in zones}
        self._cpu_zones = [zone for zone in zones if zone.cpus]
        self._cpus = CpuSet.union(zone.cpus for zone in self._cpu_zones)
        self._functions = {function.address: function for function in functions}
        self._own: dict[str, _ZoneEvidence | None] = {}
        self.complaints: dict[tuple[str, str], list[str]] = {}
        """A problem and the value used instead -> the addresses of the functions that have the problem."""

    def resolve(self, function: PciFunction) -> _ZoneEvidence | None:
        """Return the zone of a function by the first rule that applies."""
        return (
            self._by_itself(function)
            or self._by_physical_function(function)
            or self._from_above(function)
            or self._by_elimination()
        )

    def zone_cpus(self, zone: int) -> CpuSet:
        """Return the CPUs of a zone."""
        return self._zones[zone].cpus

    def memory_zone(self, function: PciFunction) -> int | None:
        """Return the zone that is a GPU's own memory; None for any other function."""
        return next((zone.id for zone in self._zones.values() if zone.device == function.address), None)

    def _by_itself(self, function: PciFunction) -> _ZoneEvidence | None:
        address = function.address
        if address not in self._own:
            self._own[address] = self._by_node(function) or self._by_cpus(function)
        return self._own[address]

    def _by_node(self, function: PciFunction) -> _ZoneEvidence | None:
        node, path = function.numa_node, f"{DEVICES}/{function.address}/numa_node"
        if node is None:
            return None
        zone = self._zones.get(node)
        if zone is None:
            self._complain(function, f"zone {node} in numa_node, which does not exist", "local CPUs or bridges")
            return None
        if not zone.cpus:
            near = nearest_cpu_zone(self._cpu_zones, zone)
            rule = "the zone with CPUs that is nearest by distance to the zone in the file, which has none"
            return None if near is None else _ZoneEvidence(near, "distance", path, node, rule)
        local = (function.cpus or EMPTY) & self._cpus
        if not local <= zone.cpus:
            # the kernel derives the CPUs from the node (drivers/pci/pci-sysfs.c, pci_dev_show_local_cpu())
            self._complain(function, f"zone {node} in numa_node, but local CPUs of other zones", "numa_node")
        return _ZoneEvidence(node, "numa_node", path, node, "the zone in the file")

    def _by_cpus(self, function: PciFunction) -> _ZoneEvidence | None:
        local = (function.cpus or EMPTY) & self._cpus
        # the kernel derives the CPUs from the node; without a node the list contains all CPUs
        odd = len(self._cpu_zones) > 1 and function.numa_node is None
        if odd and function.cpus is not None and not function.cpus:
            self._complain(function, "no zone in numa_node, and no local CPUs", "bridges")
        for zone in self._cpu_zones if local else ():
            if local <= zone.cpus:
                if odd:
                    self._complain(function, "no zone in numa_node, but local CPUs of one", "local CPUs")
                path = f"{DEVICES}/{function.address}/local_cpulist"
                return _ZoneEvidence(zone.id, "local_cpus", path, function.cpus, "the zone that has all of these CPUs")
        return None

    def _by_physical_function(self, function: PciFunction) -> _ZoneEvidence | None:
        physical = self._functions.get(function.physical_function or "")
        if physical is None:
            return None
        evidence = self._by_itself(physical) or self._from_above(physical)
        rule = "the zone of the physical function"
        path = f"{DEVICES}/{function.address}/physfn"
        return evidence and _ZoneEvidence(evidence.zone, "physfn", path, physical.address, rule)

    def _from_above(self, function: PciFunction) -> _ZoneEvidence | None:
        """Resolve the zone from the bridges above, nearest first.

        For a nested host bridge (Intel VMD) its parent function follows, then that function's bridges.
        """
        above = list(function.bridges[::-1])
        if (host := self._functions.get(function.host_function or "")) is not None:
            above += [host.address, *host.bridges[::-1]]
        for address in above:
            bridge = self._functions.get(address)
            if bridge is not None and (evidence := self._by_itself(bridge)) is not None:
                return evidence._replace(source="parent", rule=f"the zone of {address}, its parent")
        return None

    def _by_elimination(self) -> _ZoneEvidence | None:
        if len(self._cpu_zones) != 1:
            return None
        only = self._cpu_zones[0].id
        return _ZoneEvidence(only, "single", "sys/devices/system/node", only, "the only zone with CPUs")

    def _complain(self, function: PciFunction, what: str, used: str) -> None:
        self.complaints.setdefault((what, used), []).append(function.address)


def _collect(read: Reader, machine: Machine) -> Machine:
    if not machine.pci:
        raise NoData("no PCI function")
    judge = _ZoneResolver(machine.zones, machine.pci)
    placed = tuple(_placed(read, judge, function) for function in machine.pci)
    for (what, used), addresses in judge.complaints.items():
        read.problem(DEVICES, f"{_listed(addresses)} {what}", used)
    unknown = [function.address for function in placed if function.zone is None and is_endpoint(function)]
    if unknown and machine.zones:
        read.problem(DEVICES, f"{_listed(unknown)} no zone in numa_node, local CPUs or bridges", "zone unknown")
    return machine._replace(pci=placed)


def _placed(read: Reader, judge: _ZoneResolver, function: PciFunction) -> PciFunction:
    evidence = judge.resolve(function)
    memory_zone = judge.memory_zone(function)
    if evidence is None:
        return function._replace(memory_zone=memory_zone)
    read.source(f"pci.{function.address}.zone", evidence.path, evidence.value, evidence.rule)
    cpus = function.cpus
    if evidence.source == "distance" and cpus == EMPTY:
        # the kernel's list of local CPUs is empty for a zone without CPUs, such as the memory of a coherent GPU
        cpus = judge.zone_cpus(evidence.zone)
        rule = f"the CPUs of zone {evidence.zone}, which is nearest: the file names none"
        read.source(f"pci.{function.address}.cpus", f"{DEVICES}/{function.address}/local_cpulist", cpus, rule)
    return function._replace(zone=evidence.zone, zone_source=evidence.source, memory_zone=memory_zone, cpus=cpus)


def _listed(addresses: list[str]) -> str:
    """Return the subject of a sentence about functions: their number and the first few addresses."""
    shown = first_few(addresses, _SHOWN)
    return f"{len(addresses)} function(s), {shown}:"


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: this collector reads no file."""
    return None


COLLECTOR = Collector(name="locality", provides=("pci",), needs=("pci", "zones"), collect=_collect, volatile=_volatile)
