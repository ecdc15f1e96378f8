"""Books: what is written is read, by whoever shares them or does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.tas import leaf_usage as module
from zonewise_scheduler.tas.leaf_usage import LeafUsage, LeafUsageChange

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAVES = {"a": 4, "b": 3}
RESOURCES = ("cpu", "pods")


def change_of(flavor: str, resource: str, amounts: dict[int, int]) -> LeafUsageChange:
    there = {leaf: amount for leaf, amount in amounts.items() if leaf < LEAVES[flavor]}
    return LeafUsageChange(flavor, resource, tuple(there), tuple(there.values()))


_CHANGES = st.builds(
    change_of,
    st.sampled_from("ab"),
    st.sampled_from(RESOURCES),
    st.dictionaries(st.integers(0, 3), st.integers(1, 3), min_size=1),
)
_STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["write", "write", "copy", "look", "undo"]),
        st.lists(_CHANGES, min_size=1, max_size=3),
        st.sampled_from([1, -1]),
    ),
    max_size=12,
)
"""To which books, what, and of writing: what, and whether it comes or goes."""


class Plain:
    """Books without anything clever."""

    def __init__(self) -> None:
        self.used = {(flavor, name): [0] * size for flavor, size in LEAVES.items() for name in RESOURCES}

    def copy(self) -> Plain:
        other = Plain()
        other.used = {key: list(amounts) for key, amounts in self.used.items()}
        return other

    def write(self, changes: Sequence[LeafUsageChange], sign: int) -> None:
        for one in changes:
            for leaf, amount in zip(one.leaves, one.amounts, strict=True):
                self.used[one.flavor, one.resource][leaf] += sign * amount


def read(books: LeafUsage) -> dict[tuple[str, str], list[int]]:
    return {
        (flavor, name): books.usage(flavor).get(name, np.zeros(size, np.int64)).tolist()
        for flavor, size in LEAVES.items()
        for name in RESOURCES
    }


@pytest.mark.parametrize("many", [0, 1024])
@given(steps=_STEPS)
def test_what_is_written_is_read(many: int, steps: list[tuple[int, str, list[LeafUsageChange], int]]) -> None:
    """By each copy what was written to it; equal stamps are of equal books, and what was undone has changed nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH_SIZE", many)
        all_books, plain = [LeafUsage(LEAVES)], [Plain()]
        seen: dict[tuple[str, int], list[list[int]]] = {}
        for place, step, changes, sign in steps:
            one, other = all_books[place % len(all_books)], plain[place % len(all_books)]
            if step == "copy":
                all_books.append(one.copy())
                plain.append(other.copy())
            elif step == "undo":
                before = {flavor: one.version(flavor) for flavor in LEAVES}
                one.apply(changes, sign)
                one.apply(changes, -sign)
                assert many == 0 or {flavor: one.version(flavor) for flavor in LEAVES} == before
            elif step == "write":
                one.apply(changes, sign)
                other.write(changes, sign)
            for flavor in LEAVES:
                found = [other.used[flavor, name] for name in RESOURCES]
                assert seen.setdefault((flavor, one.version(flavor)), [list(each) for each in found]) == found
        assert [read(one) for one in all_books] == [one.used for one in plain]


@given(st.lists(_CHANGES, max_size=6), _CHANGES)
def test_there_is_room_for_what_is_left(taken: list[LeafUsageChange], asked: LeafUsageChange) -> None:
    books, plain = LeafUsage(LEAVES), Plain()
    books.apply(taken)
    plain.write(taken, 1)
    have = np.full(LEAVES[asked.flavor], 4, np.int64)
    used = plain.used[asked.flavor, asked.resource]
    fits = all(4 - used[leaf] >= amount for leaf, amount in zip(asked.leaves, asked.amounts, strict=True))
    assert books.fits(asked, have) is fits
    books.usage(asked.flavor)
    assert books.fits(asked, have) is fits
