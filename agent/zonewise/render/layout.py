"""Builds the tree of boxes of a machine that both renderers draw."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.model.cpu import Cache, Cluster, Die, Package
from zonewise.machine.model.zone import Zone
from zonewise.render.boxes import Box, Label, Memory, Picture, union
from zonewise.render.buses import group_by_bus
from zonewise.render.cores import CoreSorter
from zonewise.render.devices import GpuNames, located_devices
from zonewise.render.folding import fold_siblings
from zonewise.render.formatting import (
    cache_name,
    clean_all,
    format_bytes,
    format_cpu_list,
    format_name_list,
    model_name,
)
from zonewise.render.nesting import CpuGroup, NestedGroup, nest, remaining_cpus
from zonewise.render.summary import distances, facts, notes, title

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise.machine.model.machine import Machine
    from zonewise.render.devices import LocatedDevice
    from zonewise_common.k8s.cpuset import CpuSet

_RANKS = ("drawer", "book", "package", "die", "zone", "cache", "cluster")
_CLUSTER = _RANKS.index("cluster")
_NOUNS = {"drawer": "Drawer", "book": "Book", "package": "Package", "die": "Die", "zone": "Zone", "cluster": "Cluster"}
_EMPTY = "no memory"
_SHARED_FROM = 4
"""If at least this many devices have the same driver, a note below the picture names it once."""
_INSIDE_ZONES = frozenset({"cache", "cluster"})


class _Placement(NamedTuple):
    """Zones without CPUs, and devices, by the CPUs of their box; None: they have no box in the tree."""

    memories: dict[CpuSet | None, list[Zone]]
    devices: dict[CpuSet | None, list[LocatedDevice]]


def layout(machine: Machine) -> Picture:
    """Return the picture of a machine as a tree of boxes, which contains every CPU exactly once."""
    cpus = all_cpus(machine)
    sorter = CoreSorter(machine)
    tree = nest(cpus, _groups(machine, sorter))
    placed = _place_zones_and_devices(machine, tree)
    drivers = _share_drivers(placed)
    boxes = [_box(machine, sorter, placed, node) for node in tree]
    loose_cores = sorter.cores(remaining_cpus(cpus, tree))
    devices = [located.device for held in placed.devices.values() for located in held]
    return clean_all(
        Picture(
            title=title(machine),
            facts=facts(machine),
            boxes=(*fold_siblings(boxes), *loose_cores),
            memories=_memories(machine, placed.memories.get(None, ()), is_placed=False),
            devices=group_by_bus(placed.devices.get(None, ())),
            distances=distances(machine),
            notes=(*drivers, *notes(machine, devices)),
        )
    )


def _share_drivers(placed: _Placement) -> list[str]:
    """Remove drivers that several devices share from the devices' notes; return one note for each such driver."""
    names: dict[str, list[str]] = defaultdict(list)
    for held in placed.devices.values():
        for located in held:
            for note in located.device.notes:
                if note.startswith("driver "):
                    names[note] += located.device.names
    shared = {note: held for note, held in names.items() if len(held) >= _SHARED_FROM}
    for home, held in placed.devices.items():
        placed.devices[home] = [
            located._replace(
                device=located.device._replace(notes=tuple(n for n in located.device.notes if n not in shared))
            )
            for located in held
        ]
    return [f"{note.capitalize()}: {format_name_list(held)}" for note, held in shared.items()]


def all_cpus(machine: Machine) -> CpuSet:
    """Return every CPU that the machine has, online or not."""
    holders = (machine.packages, machine.zones, machine.cores)
    held = tuple(thing.cpus for things in holders for thing in things)
    return union((machine.cpus.online, machine.cpus.offline, *held))


def _groups(machine: Machine, sorter: CoreSorter) -> list[CpuGroup]:
    things = {
        "package": machine.packages,
        "die": machine.dies,
        "zone": machine.zones,
        "cache": sorter.shared_caches,
        "cluster": machine.clusters,
    }
    groups = [CpuGroup(_RANKS.index(kind), thing.cpus, thing) for kind, held in things.items() for thing in held]
    groups += [
        CpuGroup(_RANKS.index(group.kind), group.cpus, group) for group in machine.groups if group.kind in _RANKS
    ]
    in_cores = sorter.within_core
    return [group for group in groups if group.cpus and not (group.rank == _CLUSTER and in_cores(group.cpus))]


# --- zones without CPUs, and devices, beside the CPUs that they are nearest to


def _place_zones_and_devices(machine: Machine, tree: Sequence[NestedGroup]) -> _Placement:
    homes = dict(_zone_homes(tree))
    placed = _Placement({}, {})
    for zone in machine.zones:
        if not zone.cpus:
            homes[zone.id] = _home(tree, zone.local_cpus)
            placed.memories.setdefault(homes[zone.id], []).append(zone)
    for located in located_devices(machine):
        home = homes.get(located.zone) if located.zone is not None else None
        placed.devices.setdefault(home, []).append(located)
    return placed


def _zone_homes(tree: Sequence[NestedGroup]) -> Iterable[tuple[int, CpuSet | None]]:
    """Yield the id of every zone, with the CPUs of its box; the largest part of a split zone comes last."""
    for node in sorted(tree, key=lambda node: len(node.cpus)):
        yield from _zone_homes(node.children)
        for group in node.groups:
            if isinstance(group.part, Zone):
                yield group.part.id, node.cpus


def _home(tree: Sequence[NestedGroup], cpus: CpuSet) -> CpuSet | None:
    """Return the CPUs of the smallest package, die or zone that contains `cpus`; None if there is none."""
    for node in tree:
        if cpus and cpus <= node.cpus and _kind(node) not in _INSIDE_ZONES:
            return _home(node.children, cpus) or node.cpus
    return None


def _memories(machine: Machine, zones: Iterable[Zone], *, is_placed: bool = True) -> tuple[Memory, ...]:
    alike: dict[tuple[str, ...], list[int]] = {}
    names = GpuNames(machine)
    for zone in zones:
        near = f"nearest to CPUs {format_cpu_list(zone.local_cpus)}" if zone.local_cpus else "nearest CPUs unknown"
        alike.setdefault((*_memory_facts(zone, names), *(() if is_placed else (near,))), []).append(zone.id)
    memories = [Memory(tuple(ids), phrases) for phrases, ids in alike.items()]
    return tuple(sorted(memories, key=lambda memory: _EMPTY in memory.facts))


def _memory_facts(zone: Zone, names: GpuNames) -> tuple[str, ...]:
    kind = "reserved for a GPU" if zone.kind == "device" else ""
    if zone.device:
        kind = f"memory of {names.gpu_name(zone.device)}" if zone.kind == "device" else zone.device
    access = zone.accesses[0] if zone.accesses else None
    return tuple(
        phrase
        for phrase in (
            _amount(zone),
            kind,
            _bandwidth(access.read_bandwidth) if access else "",
            f"{access.read_latency} ns" if access and access.read_latency else "",
            *_zone_details(zone),
        )
        if phrase
    )


def _bandwidth(megabytes: int | None) -> str:
    return f"{megabytes / 1000:g} GB/s" if megabytes else ""


def _amount(zone: Zone) -> str:
    if zone.memory is None:
        return "memory unknown"
    medium = "" if zone.medium in (None, "DRAM", "GPU") else f" {zone.medium}"
    return f"{format_bytes(zone.memory)}{medium}" if zone.memory else _EMPTY


def _zone_details(zone: Zone) -> tuple[str, ...]:
    hugepages = [f"{count} × {kind}B" for kind, count in zone.hugepages.items() if count]
    caches = [format_bytes(cache.size) for cache in zone.side_caches if cache.size]
    return (
        *((f"huge pages {', '.join(hugepages)}",) if hugepages else ()),
        *((f"memory-side cache {', '.join(caches)}",) if caches else ()),
    )


# --- boxes


def _kind(node: NestedGroup) -> str:
    kinds = [_RANKS[group.rank] for group in node.groups]
    return "zone" if "zone" in kinds else kinds[0]


def _box(machine: Machine, sorter: CoreSorter, placed: _Placement, node: NestedGroup) -> Box:
    children = [_box(machine, sorter, placed, child) for child in node.children]
    own = sorter.cores(remaining_cpus(node.cpus, node.children))
    caches = _caches(node)
    labels = _labels(node, has_caches=bool(caches))
    headline = tuple(phrase for group in reversed(node.groups) for phrase in _headline(group))
    return Box(
        kind=_kind(node),
        labels=labels,
        headline=(*headline, *(caches[:1] if not labels else ())),
        details=(*(caches if labels else caches[1:]), *(text for group in node.groups for text in _details(group))),
        members=(node.cpus,),
        children=fold_siblings((*children, *own)),
        memories=_memories(machine, placed.memories.get(node.cpus, ())),
        devices=group_by_bus(placed.devices.get(node.cpus, ())),
    )


def _labels(node: NestedGroup, *, has_caches: bool) -> tuple[Label, ...]:
    packages = any(isinstance(group.part, Package) for group in node.groups)
    labels: list[Label] = []
    for group in node.groups:
        kind = _RANKS[group.rank]
        if isinstance(group.part, Cache) or (isinstance(group.part, Die) and packages):
            continue  # a cache is named by its size; the only die of a package is the package
        if kind == "cluster" and (has_caches or labels):
            continue  # the noun cluster adds nothing to what its cores share
        noun = "Module" if isinstance(group.part, Cluster) and group.part.kind == "module" else _NOUNS[kind]
        number = None if kind == "cluster" else _number(group.part.id)
        labels.append(Label(noun, (number,), part=group.cpus != node.cpus))
    return tuple(labels)


def _number(identity: int | None) -> int | None:
    """Return a valid id; None for -1, which the kernel prints if the firmware provides none."""
    return identity if identity is not None and identity >= 0 else None


def _headline(group: CpuGroup) -> tuple[str, ...]:
    if isinstance(group.part, Zone):
        return (_amount(group.part),)
    if isinstance(group.part, Package) and group.part.model:
        return (model_name(group.part.model),)
    return ()


def _details(group: CpuGroup) -> tuple[str, ...]:
    return _zone_details(group.part) if isinstance(group.part, Zone) else ()


def _caches(node: NestedGroup) -> tuple[str, ...]:
    """Return the names of the caches of a box, the largest first."""
    caches = [(group.part, group.cpus == node.cpus) for group in node.groups if isinstance(group.part, Cache)]
    caches.sort(key=lambda pair: -pair[0].level)
    return tuple(cache_name(cache) + ("" if whole else ", shared beyond") for cache, whole in caches)
