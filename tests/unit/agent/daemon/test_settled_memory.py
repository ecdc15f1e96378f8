"""Memory of zones that grows while the kernel initialises it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_reports import make_node
from zonewise.daemon.settled_memory import SettledMemory

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

GIB = 1 << 30


def with_memory(*sizes: int | None) -> Machine:
    machine = make_node(tuple(range(len(sizes))))
    zones = zip(machine.zones, sizes, strict=True)
    return machine._replace(zones=tuple(zone._replace(memory=size) for zone, size in zones))


def sizes(machine: Machine) -> tuple[int | None, ...]:
    return tuple(zone.memory for zone in machine.zones)


def test_only_the_final_size_of_a_growing_zone_is_shown() -> None:
    """A growing zone has its first size until it has stopped growing; other zones are not affected."""
    settled = SettledMemory()
    steps = [(4, 8), (5, 8), (6, 8), (15, 8), (15, 8), (15, 8)]
    shown = [sizes(settled.apply(with_memory(*(size * GIB for size in step)))) for step in steps]
    assert [first for first, _ in shown] == [4 * GIB] * 4 + [15 * GIB] * 2
    assert {second for _, second in shown} == {8 * GIB}


def test_a_zone_that_is_plugged_in_is_shown_at_once() -> None:
    """It has no earlier size. A removed zone is forgotten."""
    settled = SettledMemory()
    settled.apply(with_memory(4 * GIB))
    assert sizes(settled.apply(with_memory(4 * GIB, 2 * GIB))) == (4 * GIB, 2 * GIB)
    settled.apply(with_memory(4 * GIB))
    assert sizes(settled.apply(with_memory(4 * GIB, 3 * GIB))) == (4 * GIB, 3 * GIB)


def test_a_machine_without_changes_is_the_same_object() -> None:
    """Identity lets callers skip recomputation."""
    settled, machine = SettledMemory(), with_memory(4 * GIB, None)
    assert settled.apply(machine) is machine
    assert settled.apply(machine) is machine


@given(st.lists(st.integers(1, 3), min_size=1, max_size=30))
def test_a_size_is_shown_after_two_equal_scans(steps: list[int]) -> None:
    """After two equal scans, the shown size is theirs; otherwise, it does not change."""
    settled = SettledMemory()
    shown = [sizes(settled.apply(with_memory(step)))[0] for step in steps]
    for i in range(1, len(steps)):
        if steps[i] == steps[i - 1]:
            assert shown[i] == steps[i]
        else:
            assert shown[i] == shown[i - 1]
