"""memory_manager_state: the memory of each zone, and the blocks assigned to containers.

Sources: pkg/kubelet/cm/memorymanager/state/checkpoint.go and state.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.kubelet.checkpoint import WHOLE_POD, CheckpointReader, ParsedCheckpoint
from zonewise.kubelet.types import MemoryBlock, MemoryManagerState, MemoryTable, NumaNodeState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TABLE = ("total", "systemReserved", "allocatable", "reserved", "free")


def parse_memory_manager_state(content: bytes, path: str) -> ParsedCheckpoint[MemoryManagerState]:
    """Return the state in the file, in any of the three versions.

    v2 (gate PodLevelResourceManagers) also has blocks by pod UID only. These are then the pod's only entry, under the
    container WHOLE_POD: they include the blocks of its containers, which would count twice. In v3 (since 1.37),
    the text `data` has them.
    """
    file = CheckpointReader(path)
    document = file.document(content)
    if not document:
        return file.parsed(None)
    policy = file.text("policyName", document.get("policyName"))
    nodes = dict(_machine_state(file, document.get("machineState")))
    entries = dict(_containers(file, document.get("entries")))
    for uid, entry in file.pod_entries(document):
        field = f"podEntries.{uid}"
        blocks = dict(file.entries(field, entry)).get("memoryBlocks")
        entries[uid] = {WHOLE_POD: tuple(_blocks(file, f"{field}.memoryBlocks", blocks))}
    return file.parsed(None if policy is None else MemoryManagerState(policy, nodes, entries))


def _machine_state(file: CheckpointReader, value: object) -> Iterator[tuple[int, NumaNodeState]]:
    for name, entry in file.entries("machineState", value):
        field = f"machineState.{name}"
        zone = file.zone("machineState", name)
        content: Mapping[str, Any] = dict(file.entries(field, entry))
        assignments = file.number(f"{field}.numberOfAssignments", content.get("numberOfAssignments"))
        if zone is None or assignments is None:
            continue
        cells = file.zones(f"{field}.cells", content.get("cells"))
        yield (
            zone,
            NumaNodeState(assignments, cells, dict(_memory_map(file, f"{field}.memoryMap", content.get("memoryMap")))),
        )


def _memory_map(file: CheckpointReader, field: str, value: object) -> Iterator[tuple[str, MemoryTable]]:
    for kind, entry in file.entries(field, value):
        content: Mapping[str, Any] = dict(file.entries(f"{field}.{kind}", entry))
        sizes = [file.number(f"{field}.{kind}.{name}", content.get(name)) for name in _TABLE]
        known = [size for size in sizes if size is not None]
        if len(known) == len(_TABLE):
            yield kind, MemoryTable(*known)


def _containers(file: CheckpointReader, value: object) -> Iterator[tuple[str, dict[str, tuple[MemoryBlock, ...]]]]:
    for uid, containers in file.entries("entries", value):
        field = f"entries.{uid}"
        yield (
            uid,
            {name: tuple(_blocks(file, f"{field}.{name}", blocks)) for name, blocks in file.entries(field, containers)},
        )


def _blocks(file: CheckpointReader, field: str, value: object) -> Iterator[MemoryBlock]:
    for block_field, entry in file.items(field, value):
        content: Mapping[str, Any] = dict(file.entries(block_field, entry))
        kind = file.text(f"{block_field}.type", content.get("type"))
        size = file.number(f"{block_field}.size", content.get("size"))
        if kind is not None and size is not None:
            yield MemoryBlock(kind, size, file.zones(f"{block_field}.numaAffinity", content.get("numaAffinity")))
