"""Slurm's topology.yaml."""

from __future__ import annotations

import pytest

from zonewise_scheduler.fabric.levels import fabric_levels
from zonewise_scheduler.fabric.matching import match_hosts
from zonewise_scheduler.fabric.slurm_yaml import read_slurm_yaml
from zonewise_scheduler.fabric.types import FabricError

FILE = """\
---
- topology: tree1
  cluster_default: true
  tree:
    switches:
      - switch: root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: node[03-04]
- topology: blocks
  block:
    block_sizes: [4, 8]
    blocks:
      - block: b1
        nodes: n[1-4]
      - block: b2
        nodes: n[5-8]
- topology: other
  flat: true
"""


def sizes(text: str, topology: str = "") -> list[dict[str, int]]:
    """Return the number of nodes of each domain, for each level."""
    fabric = read_slurm_yaml("topology.yaml", enumerate(text.splitlines(), 1), topology)
    levels = fabric_levels(fabric, match_hosts(fabric.hcas).leaves).levels
    return [{domain.name: len(domain.nodes) for domain in level} for level in levels]


def test_the_default_topology() -> None:
    """Without a name, cluster_default decides."""
    assert sizes(FILE) == [{"s1": 2, "s2": 2}, {"root": 4}]


def test_a_topology_by_name() -> None:
    """Blocks are joined by their sizes."""
    assert sizes(FILE, "blocks") == [{"b1": 4, "b2": 4}, {"b1": 8}]


def test_the_only_topology_needs_no_default() -> None:
    """A flat topology does not count."""
    assert sizes(FILE[FILE.index("- topology: blocks") :]) == [{"b1": 4, "b2": 4}, {"b1": 8}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (FILE.replace("  cluster_default: true\n", ""), 'select one of "tree1", "blocks", "other"'),
        ("- topology: other\n  flat: true\n", 'no topology of kind tree or block; the file contains "other"'),
        ("- [1]\n", "topologies[0]: not an object"),
        ("- topology: [\n", "no YAML: "),
        ("- topology: a\n  tree: {switches: 3}\n", "topologies[0].tree.switches: not a list: 3"),
        (
            "- topology: a\n  tree: {switches: [{switch: 3}]}\n",
            "topologies[0].tree.switches[0].switch: not a string: 3",
        ),
        (
            "- topology: a\n  tree: {switches: [{nodes: n1}]}\n",
            "topologies[0].tree.switches[0]: a switch without a name",
        ),
        (
            "- topology: a\n  block: {block_sizes: [x], blocks: [{block: b}]}\n",
            "block_sizes: not a list of numbers: ['x']",
        ),
        ("- topology: a\n  block: {block_sizes: 4, blocks: [{block: b}]}\n", "block_sizes: not a list of numbers: 4"),
        (
            "- topology: a\n  block: {block_sizes: [4, 5], blocks: [{block: b}]}\n",
            "block size 5 is not 4 times a power",
        ),
        ("- topology: a\n  tree: 3\n", "topologies[0].tree: not an object: 3"),
        ("- topology: a\n  tree: {switches: []}\n", "topologies[0].tree.switches: contains no switch"),
    ],
)
def test_a_wrong_field_is_named(text: str, message: str) -> None:
    """The error names the file and the field."""
    with pytest.raises(FabricError) as error:
        sizes(text)
    assert message in str(error.value)
    assert str(error.value).startswith("topology.yaml: ")


def test_an_unknown_topology() -> None:
    """The error lists the names."""
    with pytest.raises(FabricError, match=r'no topology "none" of kind tree or block; the file contains "tree1", '):
        sizes(FILE, "none")
