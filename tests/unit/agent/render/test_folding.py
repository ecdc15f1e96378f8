"""Folding of equal siblings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from support.pictures import boxes_in, cores_in
from zonewise.render.boxes import Box, Cores, Device, Label, Memory
from zonewise.render.folding import fold_siblings
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Sequence


def leaf(first: int, count: int, *, threads: int = 1) -> Cores:
    """Return cores with consecutive CPUs from a number on."""
    starts = range(first, first + count * threads, threads)
    return Cores(tuple(CpuSet(range(start, start + threads)) for start in starts), caches=("L2 1 MiB",))


def box(kind: str, number: int | None, child: Box | Cores, headline: str = "1 GiB") -> Box:
    """Return a box around a child."""
    labels = () if kind == "cache" else (Label(kind.capitalize(), (number,)),)
    return Box(kind, labels, (headline,), (), (child.cpus,), (child,))


def described(box: Box | Cores) -> object:
    """Return everything in a box or leaf except its numbers, in a comparable form."""
    if isinstance(box, Cores):
        return box.known, box.kind, box.caches, box.state, len(box.cores), [len(core) for core in box.cores]
    labels = [label.noun for label in box.labels]
    return box.kind, labels, box.headline, box.details, [described(child) for child in box.children]


def described_folded(box: Box | Cores, parents: int = 1) -> object:
    """Return the description that each of the folded boxes must have had."""
    if isinstance(box, Cores):
        count = len(box.cores) // parents
        return box.known, box.kind, box.caches, box.state, count, [len(core) for core in box.cores[:count]]
    labels = [label.noun for label in box.labels]
    children = [described_folded(child, len(box.members)) for child in box.children]
    return box.kind, labels, box.headline, box.details, children


@st.composite
def siblings(draw: st.DrawFn) -> list[Box]:
    """Draw sibling boxes of a few kinds, so that equal ones are frequent."""
    boxes: list[Box] = []
    first = 0
    for number in range(draw(st.integers(1, 14))):
        child: Box | Cores = leaf(first, draw(st.integers(1, 2)), threads=draw(st.integers(1, 2)))
        first = max(child.cpus) + 1
        if draw(st.booleans()):
            child = box("cache", None, child, draw(st.sampled_from(["L3 8 MiB", "L3 16 MiB"])))
        kind = draw(st.sampled_from(["package", "cache"]))
        boxes.append(box(kind, draw(st.none() | st.just(number)), child, draw(st.sampled_from(["a", "b"]))))
    return boxes


def originals_of(box: Box, among: Sequence[Box]) -> list[Box]:
    """Return the siblings that were folded into a box."""
    return [sibling for sibling in among if sibling.cpus in box.members]


@given(siblings())
def test_folding_never_merges_unequal_boxes(among: list[Box]) -> None:
    """Folded boxes were equal except for their numbers, and the remaining box describes each of them."""
    for box in fold_siblings(among):
        assert isinstance(box, Box)
        before = originals_of(box, among)
        assert len(before) == len(box.members)
        assert {repr(described(sibling)) for sibling in before} == {repr(described_folded(box))}


@given(siblings())
def test_folding_loses_no_cpu_and_no_number(among: list[Box]) -> None:
    """Every CPU is still in one leaf, and every number in one label."""
    result = fold_siblings(among)
    cpus = [cpu for cores in cores_in(result) for core in cores.cores for cpu in core]
    assert sorted(cpus) == sorted(cpu for cores in cores_in(among) for core in cores.cores for cpu in core)
    numbers = [number for cores in boxes_in(result) for label in cores.labels for number in label.ids]
    before = [number for cores in boxes_in(among) for label in cores.labels for number in label.ids]
    assert sorted(map(str, numbers)) == sorted(map(str, before))


@given(siblings())
def test_a_second_folding_changes_nothing(among: list[Box]) -> None:
    """Nothing in a folded row can be folded again."""
    assert fold_siblings(fold_siblings(among)) == fold_siblings(among)


def test_caches_fold_at_once_and_numbered_boxes_late() -> None:
    """Two equal L3 groups are one box. Numbered packages are folded only if there are nine or more."""
    caches = [box("cache", None, leaf(first, 4)) for first in (0, 4)]
    assert [len(one.members) for one in boxes_in(fold_siblings(caches))] == [2]
    for count, expected in ((2, [1, 1]), (8, [1] * 8), (9, [9])):
        packages = [box("package", number, leaf(4 * number, 4)) for number in range(count)]
        assert [len(one.members) for one in boxes_in(fold_siblings(packages))] == expected


def test_boxes_that_contain_names_are_not_folded() -> None:
    """Devices and memory zones have names, and so does a part of a zone that is also elsewhere."""
    plain = [box("cache", None, leaf(first, 4)) for first in (0, 4, 8, 12)]
    special = [
        plain[0]._replace(devices=(Device("gpu", ("GPU0",), (), "GPU"),)),
        plain[1]._replace(memories=(Memory((7,), ("1 GiB",)),)),
        plain[2]._replace(labels=(Label("Zone", (0,), part=True),)),
        plain[3],
    ]
    assert len(fold_siblings(special)) == 4


def test_folded_boxes_keep_their_inner_boxes_folded() -> None:
    """Nine packages of two L3 groups are one box that contains one box, which represents eighteen."""
    packages: list[Box] = []
    for number in range(9):
        groups = fold_siblings([box("cache", None, leaf(8 * number + first, 4)) for first in (0, 4)])
        inner = box("package", number, leaf(8 * number, 8))
        packages.append(inner._replace(children=groups))
    [outer] = fold_siblings(packages)
    [group] = [inner_box for inner_box in boxes_in([outer]) if inner_box.kind == "cache"]
    [cores] = cores_in([outer])
    assert (len(group.members), len(cores.cores)) == (18, 72)


def test_siblings_are_in_the_order_of_their_numbers() -> None:
    """Packages are in numerical order, whatever their CPUs; for equal numbers, CPUs decide."""
    swapped = [box("package", number, leaf(first, 2)) for number, first in ((1, 0), (0, 2))]
    assert [one.labels[0].ids for one in boxes_in(fold_siblings(swapped))] == [(0,), (1,)]
    repeated = [box("package", 0, leaf(first, 2), headline) for first, headline in ((2, "a"), (0, "b"))]
    assert [one.headline for one in boxes_in(fold_siblings(repeated))] == [("b",), ("a",)]
