"""The machine is an immutable value."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import pytest

from support.trees import server_tree
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model import cpu, gpu, host, network, pci, problem, zone
from zonewise.machine.model.machine import Machine

if TYPE_CHECKING:
    from types import ModuleType

MODULES: tuple[ModuleType, ...] = (cpu, gpu, host, network, pci, problem, zone)
TYPES: list[Any] = [
    value
    for module in MODULES
    for value in vars(module).values()
    if isinstance(value, type) and value.__module__ == module.__name__
]


@pytest.mark.parametrize("kind", [Machine, *TYPES], ids=lambda kind: kind.__name__)
def test_values_are_tuples(kind: Any) -> None:
    """Scans compare facts by value."""
    assert kind._fields
    assert issubclass(kind, tuple)


def test_no_scan_changes_the_defaults() -> None:
    """Machines share the defaults, so discovery must not change them in place."""
    before = [copy.deepcopy(kind._field_defaults) for kind in (Machine, *TYPES)]
    assert discover(MemoryFiles(server_tree().items())) != Machine()
    assert [kind._field_defaults for kind in (Machine, *TYPES)] == before


def test_machines_of_equal_facts_are_equal() -> None:
    """Two scans without a change between them give equal values."""
    first = zone.Zone(0, cpu.CpuSet((0, 1)), cpu.CpuSet((0, 1)), 1 << 30, {"0": 10}, {}, "cpu")
    twin = zone.Zone(0, cpu.CpuSet((0, 1)), cpu.CpuSet((0, 1)), 1 << 30, {"0": 10}, {}, "cpu")
    assert Machine(zones=(first,)) == Machine(zones=(twin,)) != Machine()


def test_a_machine_without_facts() -> None:
    """Unknown facts are None or empty, never 0 or a guess."""
    unknown = Machine()
    assert (unknown.architecture, unknown.memory, unknown.swap, unknown.os_release) == (None, None, None, None)
    assert not unknown.cpus.known()
    assert (unknown.zones, unknown.pci, unknown.gpus, unknown.problems) == ((), (), (), ())
