"""Which pod of the kubelet's checkpoints is which pod of its List, though List has no UIDs and checkpoints no names.

The checkpoints of memory and devices keep the entries of deleted pods until the kubelet next admits one, and do not
say which those are. They also hold entries of init containers that have ended, of pods that are still there, and these
List leaves out. So a UID is taken for a listed pod whose containers hold, each by name, exactly what List says; what
the UID has beyond that is of init containers. UIDs for which no listed pod is left are gone.

CPUs and devices belong to one container only, which settles most matches. Pods that hold nothing but equal amounts of
memory of the same zones can be mistaken for one another, and it does not matter: whichever is taken for gone, equal
entries are given back. Where init containers make them unequal, those that hold most are taken for alive: we may then
promise less than there is until the next admission, never more.

A pod that is just being admitted is in one file and not yet in the other. One that only List has is returned as
unrecorded, to be charged for. One of which List tells more than the files do matches no UID, so that it is charged for
and its UID is given back, which comes to the same.

Some UIDs have entries of init containers only, and could be any listed pod that holds nothing. Where it is known which
pods are active, those that are keep what they have. Where it is not, all are taken for gone. Nearly always they are
(jobs that validate the GPUs of a node are such), and a device kept for one would be kept until the next admission,
which may never come for want of that very device.

An active UID that no listed pod could be is gone all the same: its containers are dead, and its volumes are being
unmounted, while the kubelet gives what it had to others. Only while a kubelet starts is it a pod that List lacks.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import ContainerResources, MemoryBlock, PodResources, StateFiles
    from zonewise_common.k8s.cpuset import CpuSet

AllocatedItem = tuple[object, ...]
"""One thing held: (CPU, bits), (MEMORY, type, bytes, zones) or (DEVICE, resource, id)."""
ItemsByContainer = dict[str, frozenset[AllocatedItem]]
"""What the containers of one pod hold, by name."""
PodShape = tuple[tuple[str, frozenset[AllocatedItem]], ...]
"""The same of a listed pod, as a key; containers that hold nothing are in it."""

CPU, MEMORY, DEVICE = "cpu", "memory", "device"
_NOTHING: frozenset[AllocatedItem] = frozenset()


class PodMatching(NamedTuple):
    """Who is who."""

    pods: dict[str, PodResources]
    """The listed pod of each UID that is alive, but for those of init containers alone."""
    unrecorded: tuple[PodResources, ...]
    """Listed pods that hold something, and are not in the checkpoints."""
    alive: frozenset[str]
    """The UIDs that keep what they hold."""
    unlisted: frozenset[str] = frozenset()
    """UIDs that hold something, and that match no listed pod; where it is known, active ones that could be none."""


def match_pods(pods: Iterable[PodResources], state: StateFiles, active: frozenset[str] | None = None) -> PodMatching:
    """Match listed pods with the UIDs of the checkpoints that could be read.

    `active` are the UIDs of KubeletReport, None where they are not known.
    """
    listed = _shapes(pods, state)
    holding = {shape: group for shape, group in listed.items() if any(held for _, held in shape)}
    recorded = _recorded(state)
    first = active or frozenset[str]()
    order = sorted(recorded, key=lambda uid: (uid in first, _weight(recorded[uid].items())), reverse=True)
    taken: dict[PodShape, list[str]] = defaultdict(list)
    fitting = _fitting(recorded, holding)
    matched = {uid for uid in order if _assign(uid, fitting, holding, taken, set())}
    known = {uid: pod for shape, group in holding.items() for uid, pod in zip(taken[shape], group, strict=False)}
    unrecorded = tuple(pod for shape, group in holding.items() for pod in group[len(taken[shape]) :])
    if active is None:
        return PodMatching(known, unrecorded, frozenset(matched), frozenset(recorded.keys() - matched))
    others = [uid for uid in order if uid in active and uid not in matched]
    fitting = _with_idle(fitting, recorded, listed.keys() - holding.keys()) if others else fitting
    idle = {uid for uid in others if _assign(uid, fitting, listed, taken, set())}
    return PodMatching(known, unrecorded, frozenset(matched | idle), frozenset(others) - idle)


def _shapes(pods: Iterable[PodResources], state: StateFiles) -> dict[PodShape, list[PodResources]]:
    found: dict[PodShape, list[PodResources]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        found[tuple(sorted((one.name, _listed(one, state)) for one in pod.containers))].append(pod)
    return found


def _assign(
    uid: str,
    fitting: dict[str, list[PodShape]],
    listed: dict[PodShape, list[PodResources]],
    taken: dict[PodShape, list[str]],
    tried: set[PodShape],
) -> bool:
    """Take a UID for one of the pods that it fits, if need be by taking another UID for another pod.

    These are Kuhn's augmenting paths. A UID once taken stays taken, and the sets of UIDs that can be taken together
    form a matroid (Edmonds and Fulkerson 1965), so that going from the heaviest to the lightest gives the heaviest set.
    """
    for shape in fitting.get(uid, ()):
        if shape in tried:
            continue
        tried.add(shape)
        if len(taken[shape]) < len(listed[shape]):
            taken[shape].append(uid)
            return True
        for place, other in enumerate(taken[shape]):
            if _assign(other, fitting, listed, taken, tried):
                taken[shape][place] = uid
                return True
    return False


def _fitting(recorded: dict[str, ItemsByContainer], listed: Iterable[PodShape]) -> dict[str, list[PodShape]]:
    """Return the shapes of listed pods that each UID could be, those that hold most first."""
    anchors: dict[tuple[str, frozenset[AllocatedItem]], list[PodShape]] = defaultdict(list)
    for shape in sorted(listed, key=_weight, reverse=True):
        anchors[next(part for part in shape if part[1])].append(shape)
    fits = {
        uid: [shape for part in held.items() for shape in anchors.get(part, ()) if _fits(held, shape)]
        for uid, held in recorded.items()
    }
    return {uid: shapes for uid, shapes in fits.items() if shapes}


def _with_idle(
    fitting: dict[str, list[PodShape]], recorded: dict[str, ItemsByContainer], idle: Iterable[PodShape]
) -> dict[str, list[PodShape]]:
    """Return the same with shapes that hold nothing, which each UID could be that has nothing under their names."""
    names = [(shape, frozenset(name for name, _ in shape)) for shape in sorted(idle)]
    return {
        uid: [*fitting.get(uid, ()), *(shape for shape, taken in names if taken.isdisjoint(held))]
        for uid, held in recorded.items()
    }


def _fits(held: ItemsByContainer, shape: PodShape) -> bool:
    return all(held.get(name, _NOTHING) == items for name, items in shape)


def _weight(containers: Iterable[tuple[str, frozenset[AllocatedItem]]]) -> tuple[int, int, list[str]]:
    """Return a key by which what holds more comes later, and the order does not depend on UIDs."""
    items = [(name, item) for name, held in containers for item in held]
    size = sum(item[2] for _, item in items if item[0] == MEMORY and isinstance(item[2], int))
    return size, len(items), sorted(map(repr, items))


# --- what is held, in one form


def _listed(container: ContainerResources, state: StateFiles) -> frozenset[AllocatedItem]:
    """Return what a listed container holds, of the kinds whose checkpoint was read."""
    items: set[AllocatedItem] = set()
    if state.cpu is not None:
        items.update(_cpus(container.cpus))
    if state.memory is not None:
        items.update(_blocks(container.memory))
    if state.devices is not None:
        items.update((DEVICE, devices.resource, one) for devices in container.devices for one in devices.ids)
    return frozenset(items)


def _recorded(state: StateFiles) -> dict[str, ItemsByContainer]:
    found: dict[str, dict[str, set[AllocatedItem]]] = defaultdict(lambda: defaultdict(set))
    for uid, containers in state.cpu.entries.items() if state.cpu else ():
        for name, cpus in containers.items():
            found[uid][name].update(_cpus(cpus))
    for uid, of_pod in state.memory.entries.items() if state.memory else ():
        for name, blocks in of_pod.items():
            found[uid][name].update(_blocks(blocks))
    for entry in state.devices.entries if state.devices else ():
        ids = (one for of_zone in entry.ids_by_zone.values() for one in of_zone)
        found[entry.uid][entry.container].update((DEVICE, entry.resource, one) for one in ids)
    held = {uid: {name: frozenset(items) for name, items in of_pod.items() if items} for uid, of_pod in found.items()}
    return {uid: of_pod for uid, of_pod in held.items() if of_pod}


def _cpus(cpus: CpuSet) -> Iterator[AllocatedItem]:
    if cpus:
        yield CPU, cpus.bits


def _blocks(blocks: Iterable[MemoryBlock]) -> Iterator[AllocatedItem]:
    # a block of an init container that a later one has used up stays, with 0 bytes
    return ((MEMORY, block.type, block.size, tuple(sorted(block.zones))) for block in blocks if block.size > 0)
