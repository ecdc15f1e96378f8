"""Graders of CPU facts: the output of hwloc and lscpu about CPUs, cores, packages, caches and kinds.

Some facts have the same name in both tools, but different rules; `entry["tool"]` names the tool of the fact.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from grading import hwloc_cpu, lscpu_cpu
from support.snapshots import files_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from grading.types import Grader
    from support.snapshots import Snapshot
    from zonewise.machine.model.machine import Machine


_REBUILT = "reconstructed from real lstopo XML"


def _is_lscpu(snapshot: Snapshot) -> bool:
    return snapshot.entry["tool"] == "lscpu"


def _has_nodes(snapshot: Snapshot) -> bool:
    """Return whether the kernel has NUMA nodes. If not, hwloc and we assume one with all CPUs, but lscpu none."""
    try:
        names = files_of(snapshot.name).names("sys/devices/system/node")
    except OSError:
        return False
    return any(name.removeprefix("node").isdecimal() for name in names)


def _same(fact: str, derive: Callable[[Machine], Any]) -> Grader:
    """Grade a fact for which both tools have the same rule."""
    return lambda machine, snapshot: (derive(machine), snapshot.expected[fact])


def _listed(fact: str, derive: Callable[[Machine], list[dict[str, Any]]]) -> Grader:
    """Grade a list of hwloc's objects."""
    return lambda machine, snapshot: (derive(machine), hwloc_cpu.by_cpus(snapshot.expected[fact]))


def _ratio(fact: str) -> Grader:
    return _same(fact, lambda machine: getattr(lscpu_cpu.ratios(machine, lscpu_cpu.types(machine)[0]), fact))


def _histogram(sizes: list[int]) -> dict[str, int]:
    return {str(size): count for size, count in Counter(sizes).items()}


def _core_count(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    cores = lscpu_cpu.same_number(machine, "cores") if _is_lscpu(snapshot) else machine.cores
    return len(cores), snapshot.expected["core_count"]


def _package_count(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    packages = lscpu_cpu.same_number(machine, "sockets") if _is_lscpu(snapshot) else machine.packages
    return len(packages), snapshot.expected["package_count"]


def _threads_per_core(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    if _is_lscpu(snapshot):
        return _ratio("threads_per_core")(machine, snapshot)
    return _histogram([len(core.cpus) for core in machine.cores]), snapshot.expected["threads_per_core"]


def _cores(machine: Machine) -> list[dict[str, Any]]:
    return hwloc_cpu.by_cpus({"cpus": str(core.cpus), "os_index": hwloc_cpu.number(core.id)} for core in machine.cores)


def _packages(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    """Compare hwloc's output about each package; the printed infos depend on the architecture.

    Trees that were reconstructed from hwloc's XML lack the processor model in /proc/cpuinfo.
    """
    expected: dict[str, dict[str, Any]] = {}
    for package in snapshot.expected["packages"]:
        infos: dict[str, str] = {} if snapshot.entry["origin"] == _REBUILT else package["infos"]
        trimmed = {name: value.strip() for name, value in infos.items()}
        expected[package["cpus"]] = {**package, "infos": trimmed}
    actual: dict[str, dict[str, Any]] = {}
    for package in machine.packages:
        cpus = str(package.cpus)
        printed = expected.get(cpus, {"infos": {}})["infos"]
        infos = hwloc_cpu.package_infos(machine, package.model)
        compared = {name: value for name, value in infos.items() if name in printed}
        actual[cpus] = {"cpus": cpus, "infos": compared, "os_index": hwloc_cpu.number(package.id)}
    return hwloc_cpu.by_cpus(actual.values()), hwloc_cpu.by_cpus(expected.values())


def _groups(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    expected = snapshot.expected["groups"]
    if _is_lscpu(snapshot):
        return lscpu_cpu.groups(machine, has_nodes=_has_nodes(snapshot)), expected
    return hwloc_cpu.groups(machine), hwloc_cpu.by_cpus(expected)


def _physical_ids(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    actual = lscpu_cpu.physical_ids(machine, has_nodes=_has_nodes(snapshot))
    return actual, snapshot.expected["physical_ids"]


def _l3(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    actual = hwloc_cpu.cache_list(machine, 3)
    if _is_lscpu(snapshot):
        actual = [{"cpus": cache["cpus"]} for cache in actual]
    return hwloc_cpu.by_cpus(actual), hwloc_cpu.by_cpus(snapshot.expected["l3"])


def _cpu_types(machine: Machine, snapshot: Snapshot) -> tuple[Any, Any]:
    return lscpu_cpu.type_rows(machine), sorted(snapshot.expected["cpu_types"], key=lambda row: row["Model name"])


def _byte_order(machine: Machine) -> str | None:
    return f"{machine.byte_order.capitalize()} Endian" if machine.byte_order else None


GRADERS: dict[str, Grader] = {
    "allowed_cpuset": _same("allowed_cpuset", lambda machine: str(machine.cpus.allowed)),
    "complete_cpuset": _same("complete_cpuset", lambda machine: str(machine.cpus.online | machine.cpus.offline)),
    "offline_or_disallowed": _same("offline_or_disallowed", lambda machine: str(machine.cpus.offline)),
    "pus": _same("pus", lambda machine: str(machine.cpus.online)),
    "pu_count": _same("pu_count", lambda machine: len(machine.cpus.online)),
    "cpus_total": _same("cpus_total", lambda machine: len(machine.cpus.online | machine.cpus.offline)),
    "core_count": _core_count,
    "cores": _listed("cores", _cores),
    "cores_per_socket": _ratio("cores_per_socket"),
    "threads_per_core": _threads_per_core,
    "threads_per_core_histogram": _same(
        "threads_per_core_histogram",
        lambda machine: _histogram([len(cpus) for cpus in lscpu_cpu.same_number(machine, "cores")]),
    ),
    "physical_ids": _physical_ids,
    "package_count": _package_count,
    "packages": _packages,
    "sockets": _ratio("sockets"),
    "sockets_per_book": _ratio("sockets_per_book"),
    "books": _ratio("books"),
    "books_per_drawer": _ratio("books_per_drawer"),
    "drawers": _ratio("drawers"),
    "dies": _listed("dies", hwloc_cpu.dies),
    "clusters": _listed("clusters", hwloc_cpu.clusters),
    "groups": _groups,
    "l1d": _listed("l1d", lambda machine: hwloc_cpu.cache_list(machine, 1)),
    "l1i": _listed("l1i", lambda machine: hwloc_cpu.cache_list(machine, 1, instruction=True)),
    "l2": _listed("l2", lambda machine: hwloc_cpu.cache_list(machine, 2)),
    "l3": _l3,
    "l1d_count": _same("l1d_count", lambda machine: len(hwloc_cpu.caches(machine, 1))),
    "l1i_count": _same("l1i_count", lambda machine: len(hwloc_cpu.caches(machine, 1, instruction=True))),
    "l2_count": _same("l2_count", lambda machine: len(hwloc_cpu.caches(machine, 2))),
    "l2i_count": _same("l2i_count", lambda machine: len(hwloc_cpu.caches(machine, 2, instruction=True))),
    "l3_count": _same("l3_count", lambda machine: len(hwloc_cpu.caches(machine, 3))),
    "caches": _same("caches", lscpu_cpu.cache_rows),
    "cpu_types": _cpu_types,
    "cpukinds": _listed("cpukinds", hwloc_cpu.kinds),
    "vendor": _same("vendor", lambda machine: machine.model.vendor),
    "flags_present": _same("flags_present", lambda machine: bool(machine.model.flags)),
    "byte_order": _same("byte_order", _byte_order),
    "dispatching_mode": _same(
        "dispatching_mode", lambda machine: machine.mainframe.dispatching if machine.mainframe else None
    ),
    "machine_type": _same(
        "machine_type", lambda machine: machine.mainframe.machine_type if machine.mainframe else None
    ),
}

_NO_FREQUENCIES = "the tree was rebuilt from hwloc's XML without cpufreq, so the frequency is nowhere in it"

UNGRADED: dict[tuple[str, str], str] = {
    ("from-lstopo-xml/nvidiaDGX2", "cpukinds"): _NO_FREQUENCIES,
    ("from-lstopo-xml/power8gpudistances", "cpukinds"): _NO_FREQUENCIES,
}
