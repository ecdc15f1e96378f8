"""Folding: siblings that are alike in everything but their numbers become one box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.boxes import Box, Cores

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_FOLDED_FROM = 2
_NUMBERED_FOLDED_FROM = 9
"""Packages, dies and zones are what a person looks for by number: folded only where a screen would overflow."""


def fold_siblings(siblings: Sequence[Box | Cores]) -> tuple[Box | Cores, ...]:
    """Return siblings, the equal ones folded, in the order of their numbers where all have one, else of their CPUs."""
    alike: dict[Hashable, list[Box | Cores]] = {}
    for place, one in enumerate(siblings):
        alike.setdefault(_shape(one) if _foldable(one) else place, []).append(one)
    found: list[Box | Cores] = []
    for same in alike.values():
        found += [_merged(same)] if len(same) >= _least(same[0]) else same
    places = [_place(one) for one in found]
    by_number = len({noun for noun, _ in places}) == 1 and len({number for _, number in places}) == len(found)
    return tuple(sorted(found, key=lambda one: _place(one)[1] if by_number else one.cpus.first()))


def _place(one: Box | Cores) -> tuple[str, int]:
    """Return the noun and the number of a box's first label, its first CPU where it has none."""
    label = one.labels[0] if isinstance(one, Box) and one.labels else None
    number = label.ids[0] if label else None
    return (label.noun, number) if label and number is not None else ("", one.cpus.first())


def _least(one: Box | Cores) -> int:
    """Return from how many equal ones on they are folded."""
    if isinstance(one, Cores):
        return 1
    numbered = any(number is not None for label in one.labels for number in label.ids)
    return _NUMBERED_FOLDED_FROM if numbered else _FOLDED_FROM


def _foldable(one: Box | Cores) -> bool:
    """Tell whether a box has nothing that has a name of its own: devices, zones without CPUs, parts of other things."""
    if isinstance(one, Cores):
        return True
    own = one.devices or one.memories or any(label.part for label in one.labels)
    return not own and all(_foldable(child) for child in one.children)


def _shape(one: Box | Cores) -> Hashable:
    """Return all that a box is but its numbers."""
    if isinstance(one, Cores):
        return one._replace(cores=()), len(one.cores), len(one.cores[0])
    nouns = tuple(label.noun for label in one.labels)
    return one.kind, nouns, one.headline, one.details, len(one.members), tuple(_shape(child) for child in one.children)


def _merged(same: Sequence[Box | Cores]) -> Box | Cores:
    """Make one of siblings of the same shape."""
    first = same[0]
    if len(same) == 1:
        return first
    if isinstance(first, Cores):
        return first._replace(cores=tuple(held for one in same if isinstance(one, Cores) for held in one.cores))
    boxes = [one for one in same if isinstance(one, Box)]
    return first._replace(
        labels=tuple(
            label._replace(ids=tuple(number for box in boxes for number in box.labels[place].ids))
            for place, label in enumerate(first.labels)
        ),
        members=tuple(member for box in boxes for member in box.members),
        children=tuple(_merged(children) for children in zip(*(box.children for box in boxes), strict=True)),
    )
