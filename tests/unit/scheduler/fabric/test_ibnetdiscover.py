"""Dumps of ibnetdiscover: what they contain, and what is wrong with damaged ones."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.fabrics import Cabling, cabling, dump, fat_tree, fat_trees, hca, read
from support.snapshots import ABSENT, SNAPSHOTS
from zonewise_scheduler.fabric.ibnetdiscover import read_dumps
from zonewise_scheduler.fabric.text_lines import numbered_lines
from zonewise_scheduler.fabric.types import FabricError, NetworkFabric

REAL = SNAPSHOTS / "ibnetdiscover/example.out"
SMALL = dump(cabling([(hca("n1", 0), "Sleaf"), (hca("n2", 0), "Sleaf"), ("Sleaf", "Sspine")]))


def links(fabric: NetworkFabric) -> set[frozenset[str]]:
    """Return the links between switches, by their names."""
    return {frozenset(fabric.switches[end].name for end in pair) for pair in fabric.links}


def leaves(fabric: NetworkFabric) -> dict[str, set[str]]:
    """Return the names of the leaves of each HCA, by its description."""
    return {one.description: {fabric.switches[leaf].name for leaf in one.leaves} for one in fabric.hcas}


def test_a_dump() -> None:
    """Switches and HCAs have their names, and links are between the right ones."""
    fabric = read(SMALL)
    assert links(fabric) == {frozenset({"leaf", "spine"})}
    assert leaves(fabric) == {"n1 mlx5_0": {"leaf"}, "n2 mlx5_0": {"leaf"}}
    assert {one.host for one in fabric.hcas} == {"n1", "n2"}


@pytest.mark.skipif(not REAL.exists(), reason=ABSENT)
def test_a_real_dump() -> None:
    """The dump of a rail-optimized cluster; the aggregation nodes of its switches are not HCAs of hosts."""
    with REAL.open("rb") as file:
        fabric = read_dumps([("example", numbered_lines(file, "example"))])
    assert (len(fabric.switches), len(fabric.hcas), len(fabric.links)) == (40, 542, 279 - 10)
    assert leaves(fabric)["a08-p1-dgx-04-c01 mlx5_5"] == {"A09-P1-IBLEAF-04-04"}
    assert sum(not one.host for one in fabric.hcas) == 72


@given(fat_trees())
def test_a_dump_contains_each_cable(tree: Cabling) -> None:
    """Reading inverts writing, whatever the GUIDs, ports and order of records are."""
    fabric = read(dump(tree, 1))
    between = [{one[1:], two[1:]} for one, two in tree.cables if one.startswith("S")]
    assert links(fabric) == {frozenset(pair) for pair in between if len(pair) == 2}
    assert {(text, leaf) for text, names in leaves(fabric).items() for leaf in names} == {
        (one[1:], two[1:]) for one, two in tree.cables if one.startswith("H")
    }


@given(fat_trees(), st.data())
def test_a_truncated_dump_is_rejected(tree: Cabling, data: st.DataObject) -> None:
    """No part of a dump is read as a smaller fabric."""
    text = dump(tree)
    part = text[: data.draw(st.integers(0, len(text)))]
    try:
        fabric = read(part)
    except FabricError:
        return
    # at most a part of the last comment is absent, or all HCAs
    assert fabric == read(text) or not fabric.hcas


def in_two_subnets(second_port: int) -> tuple[str, str]:
    """Return the dumps of two subnets with an HCA in both of them."""
    guids = {hca("n1", 0): "00000000000000aa"}
    red, blue = (cabling([(hca("n1", 0), name)]) for name in ("Sred", "Sblue"))
    return dump(red, guids=guids), dump(blue, guids={**guids, "Sblue": "00000000000000bb"}, first_port=second_port)


def test_a_dual_port_hca_in_two_subnets() -> None:
    """It is in both dumps, with the port that each of them reaches."""
    assert leaves(read(*in_two_subnets(2))) == {"n1 mlx5_0": {"red", "blue"}}


def test_one_port_in_two_subnets_is_rejected() -> None:
    """A port has one cable."""
    with pytest.raises(FabricError, match=r"b, line \d+: port 1 of H-00000000000000aa is listed twice"):
        read(*in_two_subnets(1))


def changed(pattern: str, replacement: str) -> str:
    """Return the small dump with one line changed."""
    text, number = re.subn(pattern, replacement, SMALL, count=1, flags=re.MULTILINE)
    assert number == 1
    return text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (changed(r"^\[2\]", "[1]"), r"a, line \d+: port 1 of S-\w{16} is listed twice"),
        (changed(r"^\[2\]", "[129]"), r"a, line \d+: port 129 of S-\w{16}, which has 128 ports"),
        (changed(r"^\[2\]", "[0]"), r"a, line \d+: port 0 of S-\w{16}, which has 128 ports"),
        (changed(r"^\[2\]", "[x]"), r"a, line \d+: not a line of an ibnetdiscover dump: \"\[x\]"),
        (changed(r'"\[1\]', '"[5]'), r"is connected to port 5 of \S+ here, and to port 1 of .* in line \d+"),
        (changed(r"^Ca\t", "Switch\t"), r'a, line \d+: Switch with the id "H-\w{16}"'),
        (changed(r"^Ca\t", "CA\t"), r'a, line \d+: not a line of an ibnetdiscover dump: "CA '),
        (changed(r"^Switch.*\n", ""), r"a, line \d+: a port without the line of its node"),
        (changed(r"^#$", "Chassis 1 (guid 0x8f10400410013)"), r"a, line 1: a dump with groups \(-g\)"),
        (SMALL + SMALL, r"a, line \d+: S-\w{16} is already described in a; pass each fabric only once"),
        (SMALL[: SMALL.rindex("\nvendid")], r"port \d of S-\w{16} is connected to H-\w{16}, which the file does not"),
        (SMALL[: SMALL.rindex("[1](")], r"a, line \d+: port \d of S-\w{16} is connected to .*, which does not show"),
        ('Switch\t : 0x2c5eab0300b87b40 ports 65 devid 0xd2f2 vendid 0x2c9 "leaf"\n', 'dump: "Switch  : 0x2c5eab'),
        ("<xml/>\n", 'a, line 1: not a line of an ibnetdiscover dump: "<xml/>"'),
        ("\x1b[31m\n", r'a, line 1: not a line of an ibnetdiscover dump: "\^\[\[31m"'),
    ],
)  # fmt: skip
def test_damage_is_named_with_its_line(text: str, message: str) -> None:
    """The error names the file, the line and the value."""
    with pytest.raises(FabricError, match=message):
        read(text)


def test_a_fabric_that_is_passed_twice_is_rejected() -> None:
    """Its links would count twice. The message names both files."""
    with pytest.raises(FabricError, match=r"b, line \d+: S-\w{16} is already described in a;"):
        read(SMALL, SMALL)


def test_a_dump_with_external_ports_and_a_router() -> None:
    """Routers are no hosts; notes in brackets behind a port are skipped."""
    text = dump(cabling([(hca("n1", 0), "Sleaf"), ("Hrouter x_1", "Sleaf")]))
    text = re.sub(r"^(\[\d+\])\t", r"\1[ext 4]\t", text, flags=re.MULTILINE)
    guid = re.search(r'Ca\t128 "H-(\w+)"\t\t# "router x_1"', text)
    assert guid is not None
    text = text.replace(guid[0], guid[0].replace("Ca", "Rt").replace("H-", "R-")).replace(
        f"H-{guid[1]}", f"R-{guid[1]}"
    )
    assert leaves(read(text)) == {"n1 mlx5_0": {"leaf"}}


def test_a_large_fabric_has_all_nodes() -> None:
    """A pod of 4 rails is read completely."""
    fabric = read(dump(fat_tree(pods=2, units=3, rails=4, hosts=18)))
    assert len(fabric.hcas) == 2 * 3 * 4 * 18
