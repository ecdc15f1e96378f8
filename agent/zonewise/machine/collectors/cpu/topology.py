"""Packages, dies, clusters, books, drawers and cores."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.cpu.levels import (
    BOOK,
    CLUSTER,
    CORE,
    CPU,
    DIE,
    DRAWER,
    PACKAGE,
    Levels,
    TopologyObject,
    first_cpu,
)
from zonewise.machine.collectors.cpu.sharing import shown
from zonewise.machine.model.cpu import Cluster, Core, Die, Group, Package
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.collector import Peek
    from zonewise.machine.collectors.cpu.sharing import Shared
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader


class _Packages(NamedTuple):
    """The packages by CPU."""

    by_cpu: dict[int, TopologyObject]

    def holding(self, cpus: CpuSet) -> TopologyObject | None:
        """Return the package that contains all of the CPUs."""
        package = self.by_cpu.get(cpus.first())
        return package if package is not None and cpus <= package.cpus else None

    def package_id(self, cpus: CpuSet) -> int | None:
        """Return the id of the package that contains all of the CPUs."""
        package = self.holding(cpus)
        return None if package is None else package.id


def _collect(read: Reader, machine: Machine) -> Machine:
    if not machine.cpus.online:
        raise NoData("no CPUs")
    levels = Levels(read, machine.cpus.online, machine.cpus.known())
    if not levels.names:
        read.problem(
            f"{CPU}/cpu{levels.cpus.first()}/topology", "is empty or missing", "packages and cores are unknown"
        )
        raise NoData(f"no topology below /{CPU}")
    package_objects = levels.objects(PACKAGE)
    packages = _Packages({cpu: package for package in package_objects for cpu in package.cpus})
    cores, modules = _cores(levels, machine)
    _report_straddling(read, packages, cores)
    dies = levels.defined_objects(DIE)
    clusters = [(each, "cluster") for each in levels.defined_objects(CLUSTER)] + [(each, "module") for each in modules]
    clusters.sort(key=lambda pair: first_cpu(pair[0]))
    groups = [(each, level.what) for level in (DRAWER, BOOK) for each in levels.objects(level)]
    groups.sort(key=lambda pair: first_cpu(pair[0]))
    _explain(read, packages=package_objects, dies=dies, cores=cores)
    _explain(read, clusters=[each for each, _ in clusters], groups=[each for each, _ in groups])
    zones = {cpu: (zone.id, zone.cpus) for zone in machine.zones for cpu in zone.cpus}
    return machine._replace(
        packages=tuple(Package(each.id, each.cpus, _model(machine, each.cpus)) for each in package_objects),
        dies=tuple(Die(each.id, packages.package_id(each.cpus), each.cpus) for each in dies),
        clusters=tuple(Cluster(each.id, packages.package_id(each.cpus), each.cpus, kind) for each, kind in clusters),
        groups=tuple(Group(kind, each.id, each.cpus) for each, kind in groups),
        cores=tuple(
            Core(each.id, packages.package_id(each.cpus), _zone(zones, each.cpus), each.cpus) for each in cores
        ),
    )


def _cores(levels: Levels, machine: Machine) -> tuple[list[TopologyObject], list[TopologyObject]]:
    """Return the cores, and the modules of AMD families 15h and 16h, whose two cores share front end, FPU or L2.

    The kernel lists the two cores of a module as each other's threads, though each has its own id
    (arch/x86/kernel/smpboot.c match_smt() by cu_id).
    """
    cores: list[TopologyObject] = []
    modules: list[TopologyObject] = []
    could_be_module = machine.model.vendor in (None, "AuthenticAMD") and machine.model.family in (None, "21", "22")
    for shared in levels.sets(CORE):
        if could_be_module and len(shared.cpus) > 1 and _ids_differ(levels, shared):
            modules.append(TopologyObject(None, shared.cpus, shared.path))
            alone = (CpuSet((cpu,)) for cpu in shared.cpus)
            cores.extend(TopologyObject(levels.id(each, CORE), each, shared.path) for each in alone)
        else:
            cores.append(TopologyObject(levels.id(shared.cpus, CORE), shared.cpus, shared.path))
    return sorted(cores, key=first_cpu), modules


def _ids_differ(levels: Levels, shared: Shared) -> bool:
    """Return whether the ids of the first two CPUs of a set show that they are different cores."""
    second = CpuSet(list(shared.cpus)[1:2])
    first_id, second_id = levels.id(shared.cpus, CORE), levels.id(second, CORE)
    return None not in (first_id, second_id) and first_id != second_id


def _model(machine: Machine, cpus: CpuSet) -> str | None:
    """Return the model of a package; None if its CPUs have several models or none is known."""
    names = {variant.name for variant in machine.model.variants if not variant.cpus.isdisjoint(cpus)}
    return names.pop() if len(names) == 1 else None


def _zone(zones: dict[int, tuple[int, CpuSet]], cpus: CpuSet) -> int | None:
    """Return the zone that contains all of the CPUs."""
    zone = zones.get(cpus.first())
    return zone[0] if zone is not None and cpus <= zone[1] else None


def _report_straddling(read: Reader, packages: _Packages, cores: list[TopologyObject]) -> None:
    for core in cores:
        if packages.holding(core.cpus) is None and any(cpu in packages.by_cpu for cpu in core.cpus):
            read.problem(
                core.path, f"lists CPUs {shown(core.cpus)} of several packages as sharing a core", "no package"
            )


def _explain(read: Reader, **levels: list[TopologyObject]) -> None:
    rule = "the CPUs with which the first of them shares it; id, package and zone are in files of that CPU"
    for field, objects in levels.items() if read.sources is not None else ():
        for number, item in enumerate(objects):
            read.source(f"{field}.{number}", item.path, item.cpus, rule)


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: the kernel changes topology only when it brings CPUs online or offline."""
    return None


COLLECTOR = Collector(
    name="topology",
    provides=("packages", "dies", "clusters", "groups", "cores"),
    needs=("cpus", "model", "zones"),
    collect=_collect,
    volatile=_volatile,
)
