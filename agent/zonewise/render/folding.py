"""Folding: siblings that are equal except for their numbers become one box."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.boxes import Box, Cores

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

_FOLDED_FROM = 2
_NUMBERED_FOLDED_FROM = 9
"""People look for packages, dies and zones by number, so these are folded only if the screen would overflow."""


def fold_siblings(siblings: Sequence[Box | Cores]) -> tuple[Box | Cores, ...]:
    """Return siblings with equal ones folded, ordered by number if all have one, otherwise by their CPUs."""
    groups: dict[Hashable, list[Box | Cores]] = {}
    for i, sibling in enumerate(siblings):
        groups.setdefault(_shape(sibling) if _is_foldable(sibling) else i, []).append(sibling)
    result: list[Box | Cores] = []
    for group in groups.values():
        result += [_merged(group)] if len(group) >= _fold_threshold(group[0]) else group
    labels = [_first_label(box) for box in result]
    by_number = len({noun for noun, _ in labels}) == 1 and len({number for _, number in labels}) == len(result)
    return tuple(sorted(result, key=lambda box: _first_label(box)[1] if by_number else box.cpus.first()))


def _first_label(box: Box | Cores) -> tuple[str, int]:
    """Return the noun and the number of a box's first label; without a number, "" and its first CPU."""
    label = box.labels[0] if isinstance(box, Box) and box.labels else None
    number = label.ids[0] if label else None
    return (label.noun, number) if label and number is not None else ("", box.cpus.first())


def _fold_threshold(box: Box | Cores) -> int:
    """Return the minimum number of equal siblings that are folded."""
    if isinstance(box, Cores):
        return 1
    numbered = any(number is not None for label in box.labels for number in label.ids)
    return _NUMBERED_FOLDED_FROM if numbered else _FOLDED_FROM


def _is_foldable(box: Box | Cores) -> bool:
    """Return whether a box contains nothing with its own name: devices, zones without CPUs, parts of other units."""
    if isinstance(box, Cores):
        return True
    own = box.devices or box.memories or any(label.part for label in box.labels)
    return not own and all(_is_foldable(child) for child in box.children)


def _shape(box: Box | Cores) -> Hashable:
    """Return the properties of a box except its numbers."""
    if isinstance(box, Cores):
        return box._replace(cores=()), len(box.cores), len(box.cores[0])
    nouns = tuple(label.noun for label in box.labels)
    return box.kind, nouns, box.headline, box.details, len(box.members), tuple(_shape(child) for child in box.children)


def _merged(siblings: Sequence[Box | Cores]) -> Box | Cores:
    """Merge siblings of the same shape into one."""
    first = siblings[0]
    if len(siblings) == 1:
        return first
    if isinstance(first, Cores):
        return first._replace(
            cores=tuple(cpus for sibling in siblings if isinstance(sibling, Cores) for cpus in sibling.cores)
        )
    boxes = [sibling for sibling in siblings if isinstance(sibling, Box)]
    return first._replace(
        labels=tuple(
            label._replace(ids=tuple(number for box in boxes for number in box.labels[i].ids))
            for i, label in enumerate(first.labels)
        ),
        members=tuple(member for box in boxes for member in box.members),
        children=tuple(_merged(children) for children in zip(*(box.children for box in boxes), strict=True)),
    )
