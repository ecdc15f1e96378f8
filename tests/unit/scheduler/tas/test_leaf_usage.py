"""LeafUsage, compared with plain lists, with and without copies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.tas import leaf_usage as leaf_usage_module
from zonewise_scheduler.tas.leaf_usage import LeafUsage, LeafUsageChange

if TYPE_CHECKING:
    from collections.abc import Sequence

LEAF_COUNTS = {"a": 4, "b": 3}
RESOURCES = ("cpu", "pods")


def change_of(flavor: str, resource: str, amounts: dict[int, int]) -> LeafUsageChange:
    valid_amounts = {leaf: amount for leaf, amount in amounts.items() if leaf < LEAF_COUNTS[flavor]}
    return LeafUsageChange(flavor, resource, tuple(valid_amounts), tuple(valid_amounts.values()))


_CHANGES = st.builds(
    change_of,
    st.sampled_from("ab"),
    st.sampled_from(RESOURCES),
    st.dictionaries(st.integers(0, 3), st.integers(1, 3), min_size=1),
)
_STEPS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(["apply", "apply", "copy", "read", "undo"]),
        st.lists(_CHANGES, min_size=1, max_size=3),
        st.sampled_from([1, -1]),
    ),
    max_size=12,
)
"""Index of the usage, operation, changes, and sign."""


class PlainUsage:
    """Usage as lists that are changed immediately."""

    def __init__(self) -> None:
        self.used = {(flavor, name): [0] * size for flavor, size in LEAF_COUNTS.items() for name in RESOURCES}

    def copy(self) -> PlainUsage:
        copied = PlainUsage()
        copied.used = {key: list(amounts) for key, amounts in self.used.items()}
        return copied

    def apply(self, changes: Sequence[LeafUsageChange], sign: int) -> None:
        for change in changes:
            for leaf, amount in zip(change.leaves, change.amounts, strict=True):
                self.used[change.flavor, change.resource][leaf] += sign * amount


def all_usage(leaf_usage: LeafUsage) -> dict[tuple[str, str], list[int]]:
    return {
        (flavor, resource): leaf_usage.usage(flavor).get(resource, np.zeros(size, np.int64)).tolist()
        for flavor, size in LEAF_COUNTS.items()
        for resource in RESOURCES
    }


@pytest.mark.parametrize("batch_size", [0, 1024])
@given(steps=_STEPS)
def test_applied_changes_are_read(batch_size: int, steps: list[tuple[int, str, list[LeafUsageChange], int]]) -> None:
    """Each copy has its own changes. Equal versions mean equal usage, and undoing a change restores the version."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(leaf_usage_module, "_BATCH_SIZE", batch_size)
        usages, plain_usages = [LeafUsage(LEAF_COUNTS)], [PlainUsage()]
        usage_by_version: dict[tuple[str, int], list[list[int]]] = {}
        for i, step, changes, sign in steps:
            usage, plain_usage = usages[i % len(usages)], plain_usages[i % len(usages)]
            if step == "copy":
                usages.append(usage.copy())
                plain_usages.append(plain_usage.copy())
            elif step == "undo":
                versions = {flavor: usage.version(flavor) for flavor in LEAF_COUNTS}
                usage.apply(changes, sign)
                usage.apply(changes, -sign)
                assert batch_size == 0 or {flavor: usage.version(flavor) for flavor in LEAF_COUNTS} == versions
            elif step == "apply":
                usage.apply(changes, sign)
                plain_usage.apply(changes, sign)
            for flavor in LEAF_COUNTS:
                amounts = [plain_usage.used[flavor, name] for name in RESOURCES]
                assert (
                    usage_by_version.setdefault((flavor, usage.version(flavor)), [list(each) for each in amounts])
                    == amounts
                )
        assert [all_usage(usage) for usage in usages] == [usage.used for usage in plain_usages]


@given(st.lists(_CHANGES, max_size=6), _CHANGES)
def test_fits_compares_with_free_capacity(applied: list[LeafUsageChange], change: LeafUsageChange) -> None:
    usage, plain_usage = LeafUsage(LEAF_COUNTS), PlainUsage()
    usage.apply(applied)
    plain_usage.apply(applied, 1)
    free_capacity = np.full(LEAF_COUNTS[change.flavor], 4, np.int64)
    used = plain_usage.used[change.flavor, change.resource]
    fits = all(4 - used[leaf] >= amount for leaf, amount in zip(change.leaves, change.amounts, strict=True))
    assert usage.fits(change, free_capacity) is fits
    usage.usage(change.flavor)
    assert usage.fits(change, free_capacity) is fits
