"""Matches the pods of the kubelet's checkpoints with those of List: List has no UIDs, and checkpoints have no names.

The checkpoints of memory and devices keep the entries of deleted pods, unmarked, until the next admission. They also
contain entries of ended init containers, which List omits. A UID matches a listed pod if the containers of the pod hold
exactly what List shows. Everything else that the UID holds belongs to init containers. UIDs without a listed pod are
stale.

A CPU or a device belongs to one container, which settles most matches. Pods that hold only equal amounts of memory of
the same zones are interchangeable: equal entries are released whichever is stale. If init containers make the entries
unequal, the largest count as alive. The available amount may then be too low until the next admission, and is never too
high.

Rules for a pod that is not in all sources:

- A pod during its admission is in one file and not yet in the other. A pod that only List has is `unrecorded`, and is
  charged for.
- A pod for which List shows more than the files matches no UID. The pod is charged for and its UID is released, which
  amounts to the same.
- A UID that has only entries of init containers could be any listed pod that holds nothing. If the active pods are
  known, the active UIDs keep their entries. If not, all such UIDs count as stale. Nearly always they are (jobs that
  validate the GPUs of a node). Keeping a device for one could block the device forever: the next admission might need
  that very device.
- An active UID that matches no listed pod is stale as well. Its containers are dead and its volumes are being
  unmounted, while the kubelet reallocates its resources. Only during a kubelet's start may it be a pod that List lacks.
- A UID that is known to have ended (zonewise.daemon.ended_pods) is not a listed pod.
- While the kubelet's sources are not ready, it releases nothing, so all UIDs keep their entries.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from zonewise.kubelet.types import ContainerResources, KubeletReport, MemoryBlock, PodResources, StateFiles
    from zonewise_common.k8s.cpuset import CpuSet

AllocatedItem = tuple[object, ...]
"""One allocation: (CPU, bits), (MEMORY, type, bytes, zones) or (DEVICE, resource, id)."""
ItemsByContainer = dict[str, frozenset[AllocatedItem]]
"""The allocations of one pod by container name."""
PodShape = tuple[tuple[str, frozenset[AllocatedItem]], ...]
"""The allocations of a listed pod as a hashable key; containers without allocations are included."""

CPU, MEMORY, DEVICE = "cpu", "memory", "device"
_NOTHING: frozenset[AllocatedItem] = frozenset()


class PodMatching(NamedTuple):
    """The result of a matching."""

    pods: dict[str, PodResources]
    """The listed pod of each alive UID, except UIDs that have only entries of init containers."""
    unrecorded: tuple[PodResources, ...]
    """Listed pods with allocations that are not in the checkpoints."""
    alive: frozenset[str]
    """The UIDs whose entries remain in force."""
    unlisted: frozenset[str] = frozenset()
    """UIDs with entries that match no listed pod; if the active pods are known, only active UIDs."""


def match_report(report: KubeletReport) -> PodMatching:
    """Match the pods of a report, using all of its data about them."""
    matching = match_pods(report.pods, report.state, report.active, report.ended)
    return matching if report.sources_ready else matching._replace(alive=frozenset(report.state.pod_uids()))


def match_pods(
    pods: Iterable[PodResources],
    state: StateFiles,
    active: frozenset[str] | None = None,
    ended: frozenset[str] = frozenset(),
) -> PodMatching:
    """Match listed pods with the UIDs of the checkpoints that could be read.

    `active` are the UIDs of KubeletReport, None if they are not known; `ended` are UIDs that match no pod.
    """
    listed = _shapes(pods, state)
    holding = {shape: group for shape, group in listed.items() if any(held for _, held in shape)}
    recorded = {uid: held for uid, held in _checkpointed_items(state).items() if uid not in ended}
    preferred = active or frozenset[str]()
    order = sorted(recorded, key=lambda uid: (uid in preferred, _weight(recorded[uid].items())), reverse=True)
    uids_by_shape: dict[PodShape, list[str]] = defaultdict(list)
    candidates = _candidate_shapes(recorded, holding)
    matched = {uid for uid in order if _assign(uid, candidates, holding, uids_by_shape, set())}
    pods_by_uid = {
        uid: pod for shape, group in holding.items() for uid, pod in zip(uids_by_shape[shape], group, strict=False)
    }
    unrecorded = tuple(pod for shape, group in holding.items() for pod in group[len(uids_by_shape[shape]) :])
    if active is None:
        return PodMatching(pods_by_uid, unrecorded, frozenset(matched), frozenset(recorded.keys() - matched))
    unmatched = [uid for uid in order if uid in active and uid not in matched]
    candidates = _with_idle_shapes(candidates, recorded, listed.keys() - holding.keys()) if unmatched else candidates
    idle = {uid for uid in unmatched if _assign(uid, candidates, listed, uids_by_shape, set())}
    return PodMatching(pods_by_uid, unrecorded, frozenset(matched | idle), frozenset(unmatched) - idle)


def _shapes(pods: Iterable[PodResources], state: StateFiles) -> dict[PodShape, list[PodResources]]:
    pods_by_shape: dict[PodShape, list[PodResources]] = defaultdict(list)
    for pod in sorted(pods, key=lambda pod: (pod.namespace, pod.name)):
        pods_by_shape[
            tuple(sorted((container.name, _listed_items(container, state)) for container in pod.containers))
        ].append(pod)
    return pods_by_shape


def _assign(
    uid: str,
    candidates: dict[str, list[PodShape]],
    pods_by_shape: dict[PodShape, list[PodResources]],
    uids_by_shape: dict[PodShape, list[str]],
    tried: set[PodShape],
) -> bool:
    """Assign a UID to one of the shapes that it fits, if necessary by moving another UID to another shape.

    These are Kuhn's augmenting paths. A UID once assigned remains assigned. The sets of UIDs that can be assigned
    together form a matroid (Edmonds and Fulkerson 1965). Hence assigning from the heaviest to the lightest gives the
    heaviest set.
    """
    for shape in candidates.get(uid, ()):
        if shape in tried:
            continue
        tried.add(shape)
        if len(uids_by_shape[shape]) < len(pods_by_shape[shape]):
            uids_by_shape[shape].append(uid)
            return True
        for i, assigned in enumerate(uids_by_shape[shape]):
            if _assign(assigned, candidates, pods_by_shape, uids_by_shape, tried):
                uids_by_shape[shape][i] = uid
                return True
    return False


def _candidate_shapes(recorded: dict[str, ItemsByContainer], listed: Iterable[PodShape]) -> dict[str, list[PodShape]]:
    """Return the shapes of listed pods that each UID could have, largest first."""
    anchors: dict[tuple[str, frozenset[AllocatedItem]], list[PodShape]] = defaultdict(list)
    for shape in sorted(listed, key=_weight, reverse=True):
        anchors[next(part for part in shape if part[1])].append(shape)
    fits = {
        uid: [shape for part in held.items() for shape in anchors.get(part, ()) if _fits(held, shape)]
        for uid, held in recorded.items()
    }
    return {uid: shapes for uid, shapes in fits.items() if shapes}


def _with_idle_shapes(
    candidates: dict[str, list[PodShape]], recorded: dict[str, ItemsByContainer], idle: Iterable[PodShape]
) -> dict[str, list[PodShape]]:
    """Return the same with shapes that hold nothing; a UID could have any of them if it holds nothing under their
    names.
    """
    names = [(shape, frozenset(name for name, _ in shape)) for shape in sorted(idle)]
    return {
        uid: [
            *candidates.get(uid, ()),
            *(shape for shape, container_names in names if container_names.isdisjoint(held)),
        ]
        for uid, held in recorded.items()
    }


def _fits(held: ItemsByContainer, shape: PodShape) -> bool:
    return all(held.get(name, _NOTHING) == items for name, items in shape)


def _weight(containers: Iterable[tuple[str, frozenset[AllocatedItem]]]) -> tuple[int, int, list[str]]:
    """Return a key by which larger allocations sort later, independent of UIDs."""
    items = [(name, item) for name, held in containers for item in held]
    size = sum(item[2] for _, item in items if item[0] == MEMORY and isinstance(item[2], int))
    return size, len(items), sorted(map(repr, items))


# --- allocations in one form


def _listed_items(container: ContainerResources, state: StateFiles) -> frozenset[AllocatedItem]:
    """Return the holdings of a listed container, of the kinds whose checkpoint was read."""
    items: set[AllocatedItem] = set()
    if state.cpu is not None:
        items.update(_cpu_items(container.cpus))
    if state.memory is not None:
        items.update(_memory_items(container.memory))
    if state.devices is not None:
        items.update(
            (DEVICE, devices.resource, device_id) for devices in container.devices for device_id in devices.ids
        )
    return frozenset(items)


def _checkpointed_items(state: StateFiles) -> dict[str, ItemsByContainer]:
    items_by_pod: dict[str, dict[str, set[AllocatedItem]]] = defaultdict(lambda: defaultdict(set))
    for uid, containers in state.cpu.entries.items() if state.cpu else ():
        for name, cpus in containers.items():
            items_by_pod[uid][name].update(_cpu_items(cpus))
    for uid, by_container in state.memory.entries.items() if state.memory else ():
        for name, blocks in by_container.items():
            items_by_pod[uid][name].update(_memory_items(blocks))
    for entry in state.devices.entries if state.devices else ():
        ids = (device_id for zone_ids in entry.ids_by_zone.values() for device_id in zone_ids)
        items_by_pod[entry.uid][entry.container].update((DEVICE, entry.resource, device_id) for device_id in ids)
    held = {
        uid: {name: frozenset(items) for name, items in containers.items() if items}
        for uid, containers in items_by_pod.items()
    }
    return {uid: containers for uid, containers in held.items() if containers}


def _cpu_items(cpus: CpuSet) -> Iterator[AllocatedItem]:
    if cpus:
        yield CPU, cpus.bits


def _memory_items(blocks: Iterable[MemoryBlock]) -> Iterator[AllocatedItem]:
    # if a later container has used up a block of an init container, the block remains with 0 bytes
    return ((MEMORY, block.type, block.size, tuple(sorted(block.zones))) for block in blocks if block.size > 0)


PodName = tuple[str, str]
"""Namespace and name of a pod."""


def is_listed(name: PodName, pods: Iterable[PodResources]) -> bool:
    """Return whether List has a pod."""
    return any((pod.namespace, pod.name) == name for pod in pods)


def incomplete_list_reason(report: KubeletReport, own: PodName | None = None) -> str | None:
    """Return why List may lack alive pods, as a sentence; None without an indication.

    `own` is the pod that the agent runs in. An indication may also come from pods that have just ended or, if the
    cgroups are not known, from pods deleted long ago. So it is useful only after a kubelet's start.
    """
    if own is not None and not is_listed(own, report.pods):
        return f"List does not include the agent's own pod {own[0]}/{own[1]} yet"
    unlisted = match_pods(report.pods, report.state, report.active).unlisted
    if unlisted:
        return f"List does not include {len(unlisted)} pods yet that the kubelet's checkpoints contain"
    if report.active is not None and len(report.pods) < len(report.active):
        return f"List does not include all pods yet: it has {len(report.pods)}, but {len(report.active)} have cgroups"
    return None
