"""Separating kinds of cores by the traits of each CPU.

Values are compared by class: a tenth up or down is no other kind. Favoured cores turbo higher than the rest of their
kind by 2 to 5 %, while kinds differ by 20 % and more. The limit of hwloc is 10 % as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SAME = 1.1
"""Up to this ratio two capacities or frequencies are of one class."""


class Traits(NamedTuple):
    """The traits that separate kinds; numbers are classes of values, None is unknown."""

    named: str | None = None
    """What the kernel calls the kind."""
    design: str | None = None
    capacity: int | None = None
    maximum: int | None = None
    base: int | None = None

    def known(self) -> frozenset[int]:
        """Return the indexes of the known traits."""
        return frozenset(index for index, value in enumerate(self) if value is not None)

    def agrees(self, other: Traits) -> bool:
        """Return whether every known trait has the same value in `other`."""
        return all(mine is None or mine == theirs for mine, theirs in zip(self, other, strict=True))


class CpuKind(NamedTuple):
    """CPUs with the same traits."""

    traits: Traits
    cpus: CpuSet


def classes(values: Mapping[int, float]) -> dict[int, int]:
    """Return the class of each CPU's value: 0 for the lowest, one more for each step of more than a tenth."""
    class_by_value: dict[float, int] = {}
    lowest, current = 0.0, -1
    for value in sorted(set(values.values())):
        if value > lowest * _SAME:
            lowest, current = value, current + 1
        class_by_value[value] = current
    return {cpu: class_by_value[value] for cpu, value in values.items()}


def kinds(traits_by_cpu: Mapping[int, Traits]) -> list[CpuKind]:
    """Return the CPUs by kind, ascending by first CPU.

    A CPU of which less is known than of others is of the one kind that it could be. It is left out where it could be of
    several kinds or of none.
    """
    members: dict[Traits, list[int]] = {}
    for cpu, traits in traits_by_cpu.items():
        members.setdefault(traits, []).append(cpu)
    everything = _known_indexes(members)
    whole = [traits for traits in members if traits.known() == everything]
    for traits in [traits for traits in members if traits.known() != everything]:
        alike = [complete for complete in whole if traits.agrees(complete)]
        if len(alike) == 1:
            members[alike[0]] += members[traits]
    return sorted((CpuKind(traits, CpuSet(members[traits])) for traits in whole), key=lambda kind: kind.cpus.first())


def _known_indexes(all_traits: Iterable[Traits]) -> frozenset[int]:
    return frozenset(index for traits in all_traits for index in traits.known())
