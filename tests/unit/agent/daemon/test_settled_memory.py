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


def test_steps_are_not_shown_and_the_last_one_is() -> None:
    """Of a zone that grows the first size counts until it has stopped; other zones change at once with it."""
    settled = SettledMemory()
    steps = [(4, 8), (5, 8), (6, 8), (15, 8), (15, 8), (15, 8)]
    shown = [sizes(settled.apply(with_memory(*(size * GIB for size in step)))) for step in steps]
    assert [first for first, _ in shown] == [4 * GIB] * 4 + [15 * GIB] * 2
    assert {second for _, second in shown} == {8 * GIB}


def test_a_zone_that_is_plugged_in_is_shown_at_once() -> None:
    """It has no earlier size; one that was removed is forgotten."""
    settled = SettledMemory()
    settled.apply(with_memory(4 * GIB))
    assert sizes(settled.apply(with_memory(4 * GIB, 2 * GIB))) == (4 * GIB, 2 * GIB)
    settled.apply(with_memory(4 * GIB))
    assert sizes(settled.apply(with_memory(4 * GIB, 3 * GIB))) == (4 * GIB, 3 * GIB)


def test_a_machine_without_changes_is_the_same_value() -> None:
    """So that nothing is computed anew."""
    settled, machine = SettledMemory(), with_memory(4 * GIB, None)
    assert settled.apply(machine) is machine
    assert settled.apply(machine) is machine


@given(st.lists(st.integers(1, 3), min_size=1, max_size=30))
def test_what_stays_is_shown_and_each_shown_size_was_there(steps: list[int]) -> None:
    """After two equal scans the size is that of the scans; changes are at most as many as pairs of equal scans."""
    settled = SettledMemory()
    shown = [sizes(settled.apply(with_memory(step)))[0] for step in steps]
    for i in range(1, len(steps)):
        if steps[i] == steps[i - 1]:
            assert shown[i] == steps[i]
        else:
            assert shown[i] == shown[i - 1]
