"""The Memory Manager's machine state: free and reserved bytes of each type in each zone, and the groups of zones.

The rules are those of pkg/kubelet/cm/memorymanager/policy_static.go, updateMachineState and releaseMemory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.kubelet.types import MemoryBlock, MemoryManagerState

ZoneMemory = dict[tuple[int, str], int]
"""Bytes by zone and type."""


class _Cell:
    """The memory of one zone."""

    __slots__ = ("assignments", "free", "group", "held")

    def __init__(self, assignments: int, group: tuple[int, ...], free: dict[str, int], held: dict[str, int]) -> None:
        self.assignments = assignments
        self.group = group
        self.free = free
        self.held = held


class MemoryMachineState:
    """The machine state, which changes block by block."""

    def __init__(self, cells: dict[int, _Cell]) -> None:
        self._cells = cells

    @classmethod
    def from_checkpoint(cls, state: MemoryManagerState) -> MemoryMachineState:
        """Return the state recorded in the checkpoint."""
        return cls(
            {
                zone: _Cell(
                    node.number_of_assignments,
                    node.cells,
                    {kind: max(0, table.free) for kind, table in node.memory_map.items()},
                    {kind: max(0, table.reserved) for kind, table in node.memory_map.items()},
                )
                for zone, node in state.machine_state.items()
            }
        )

    @classmethod
    def idle(cls, allocatable: ZoneMemory) -> MemoryMachineState:
        """Return the state of a node without any assignment."""
        cells: dict[int, _Cell] = {}
        for (zone, kind), size in allocatable.items():
            cell = cells.setdefault(zone, _Cell(0, (zone,), {}, {}))
            cell.free[kind], cell.held[kind] = size, 0
        return cls(cells)

    def assign(self, blocks: Iterable[MemoryBlock]) -> None:
        """Assign blocks: a block uses up its lowest zones first."""
        for block in _canonical_order(blocks):
            remaining = max(0, block.size)
            for zone, cell in self._block_cells(block):
                cell.assignments += 1
                cell.group = tuple(sorted(block.zones))
                moved = min(remaining, cell.free.get(block.type, 0))
                self._move(zone, block.type, moved)
                remaining -= moved

    def release(self, blocks: Iterable[MemoryBlock]) -> None:
        """Release blocks: again the lowest zones first; a zone without assignments leaves its group."""
        for block in _canonical_order(blocks):
            remaining = max(0, block.size)
            for zone, cell in self._block_cells(block):
                cell.assignments -= 1
                if cell.assignments <= 0:
                    cell.group = (zone,)
                moved = min(remaining, cell.held.get(block.type, 0))
                self._move(zone, block.type, -moved)
                remaining -= moved

    def free(self) -> ZoneMemory:
        """Return the free bytes."""
        return {(zone, kind): size for zone, cell in self._cells.items() for kind, size in cell.free.items()}

    def assigned(self) -> tuple[int, ...]:
        """Return the zones in which any memory is assigned, ascending.

        These may differ from the zones with less free than allocatable memory. The kubelet frees the memory of init
        containers under the containers that reuse it, so a zone can be fully free and yet assigned.
        """
        return tuple(zone for zone, cell in sorted(self._cells.items()) if cell.assignments > 0)

    def group(self, zone: int) -> tuple[int, ...]:
        """Return the zones that form a group with a zone, including it; none if it is in no group."""
        cell = self._cells.get(zone)
        return tuple(sorted(cell.group)) if cell is not None and len(cell.group) > 1 else ()

    def _block_cells(self, block: MemoryBlock) -> Iterable[tuple[int, _Cell]]:
        return ((zone, self._cells[zone]) for zone in sorted(block.zones) if zone in self._cells)

    def _move(self, zone: int, kind: str, size: int) -> None:
        if size:
            self._cells[zone].free[kind] -= size
            self._cells[zone].held[kind] = self._cells[zone].held.get(kind, 0) + size


def _canonical_order(blocks: Iterable[MemoryBlock]) -> list[MemoryBlock]:
    """Return blocks in an order independent of the kubelet's response; groups come last and so remain in force."""
    return sorted(blocks, key=lambda block: (len(block.zones), block.zones, block.type, block.size))
