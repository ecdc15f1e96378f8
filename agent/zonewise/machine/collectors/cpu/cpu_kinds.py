"""Separates kinds of cores by the traits of each CPU.

Values are compared by class: a difference of up to a tenth does not make another kind. Favoured cores turbo 2 to 5 %
higher than the rest of their kind, while kinds differ by 20 % or more. The limit in hwloc is 10 % as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SAME = 1.1
"""Two capacities or frequencies belong to one class if their ratio is at most this."""


class Traits(NamedTuple):
    """The traits that separate kinds. Numbers are classes of values; None means unknown."""

    named: str | None = None
    """The kernel's name for the kind."""
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
    """Return the class of each CPU's value: 0 for the lowest; each step of more than a tenth starts the next class."""
    class_by_value: dict[float, int] = {}
    lowest, current = 0.0, -1
    for value in sorted(set(values.values())):
        if value > lowest * _SAME:
            lowest, current = value, current + 1
        class_by_value[value] = current
    return {cpu: class_by_value[value] for cpu, value in values.items()}


def kinds(traits_by_cpu: Mapping[int, Traits]) -> list[CpuKind]:
    """Return the CPUs by kind, ascending by first CPU.

    A CPU with fewer known traits than others belongs to the only kind that matches it. It is left out if it matches
    several kinds or none.
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
