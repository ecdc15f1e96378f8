"""Slurm's topology.conf."""

from __future__ import annotations

import pytest

from zonewise_scheduler.fabric.levels import fabric_levels
from zonewise_scheduler.fabric.matching import match_hosts
from zonewise_scheduler.fabric.slurm_conf import is_slurm_conf, read_slurm_conf
from zonewise_scheduler.fabric.types import FabricError, NetworkFabric

TREE = """\
# the example of the manual
SwitchName=s0 Nodes=dev[0-5]
switchname=s1 NODES=dev[6-11] LinkSpeed=3  # a comment
SwitchName=s2 \\
    Nodes="dev[12-17]"
SwitchName=s3 Switches=s[0-2]
"""
BLOCKS = """\
BlockName=block1 Nodes=node[1-32]
BlockName=block2 Nodes=node[33-64]
BlockName=block3 Nodes=node[65-96]
BlockName=block4 Nodes=node[97-128]
BlockSizes=30,120
"""


def read(text: str) -> NetworkFabric:
    return read_slurm_conf("topology.conf", enumerate(text.splitlines(), 1))


def sizes(text: str) -> list[dict[str, int]]:
    """Return the number of nodes of each domain, for each level."""
    fabric = read(text)
    levels = fabric_levels(fabric, match_hosts(fabric.hcas).leaves).levels
    return [{domain.name: len(domain.nodes) for domain in level} for level in levels]


def test_a_tree() -> None:
    """Each switch is a domain with its own name."""
    assert sizes(TREE) == [{"s0": 6, "s1": 6, "s2": 6}, {"s3": 18}]


def test_a_tree_of_uneven_depth() -> None:
    """As in Slurm, a switch is one level above its highest child. A leaf below the root has no switch between."""
    text = TREE + "SwitchName=s4 Nodes=x[1-2]\nSwitchName=root Switches=s3,s4\n"
    assert sizes(text) == [{"s0": 6, "s1": 6, "s2": 6, "s4": 2}, {"s3": 18, "s4": 2}, {"root": 20}]


def test_blocks() -> None:
    """BlockSizes join consecutive blocks; the first size is that of a block itself."""
    assert sizes(BLOCKS) == [{f"block{i}": 32 for i in range(1, 5)}, {"block1": 128}]
    assert sizes(BLOCKS.replace("30,120", "30,60,120"))[1:] == [{"block1": 64, "block3": 64}, {"block1": 128}]
    assert sizes(BLOCKS.replace("BlockSizes=30,120\n", "")) == [{f"block{i}": 32 for i in range(1, 5)}]


def test_a_node_in_two_switches() -> None:
    """Slurm warns of it. The node is a domain of its own and joins nothing."""
    levels = sizes("SwitchName=a Nodes=n[1-3]\nSwitchName=b Nodes=n[3-6]\nSwitchName=c Switches=a,b\n")
    assert sorted(levels[0].values()) == [1, 2, 3]
    assert levels[1] == {"c": 6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "topology.conf: contains neither a switch nor a block"),
        ("SwitchName=a Nodes=n[1-2\n", "line 1: 'n[1-2' is not a list of names"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", 'line 2: switch "a" is already in topology.conf, line 1'),
        ("SwitchName=a Nodes=n1 Switches=b\nSwitchName=b\n", 'line 1: switch "a" has both switches and nodes'),
        ("SwitchName=a Switches=b\n", 'line 1: switch "a" has no valid child "b"'),
        ("SwitchName=a Switches=a\n", 'line 1: switch "a" has no valid child "a"'),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\n", 'line 1: switch "a" is below or in a cycle'),
        ("SwitchName= Nodes=n1\n", "line 1: SwitchName has no value"),
        ("SwitchName=a Nodes=\n", "line 1: Nodes has no value"),
        ('SwitchName="" Nodes=n1\n', "line 1: a switch without a name"),
        ("SwitchName=a Nodes=n1 Nodes=n2\n", "line 1: Nodes is set twice"),
        ("SwitchName=a Node=n1\n", 'line 1: unknown key "node"'),
        ("Nodes=n1\n", 'line 1: unknown key "nodes"'),
        ("SwitchName=a Nodes n1\n", 'line 1: "Nodes n1" is not a KEY=VALUE'),
        ("SwitchName=a Nodes=no_de\n", 'line 1: "no_de" is not a valid name of a node'),
        ("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n", "line 2: a block in a file of switches"),
        ("RingName=r Nodes=n[1-4]\n", "line 1: topology/ring has no levels"),
        ("include other.conf\n", 'line 1: "include other.conf" is not a KEY=VALUE'),
        ("SwitchName=a \\\n", "line 1: the file ends within a line that continues"),
        ("BlockName=a Nodes=n1\nBlockSizes=4,x\n", 'line 2: BlockSizes "4,x" is not a list of numbers'),
        ("BlockName=a Nodes=n1\nBlockSizes=4,12\n", "line 2: block size 12 is not 4 times a power of two"),
        ("BlockName=a Nodes=n1\nBlockSizes=0\n", "line 2: block size 0 is not 0 times a power of two"),
    ],
)
def test_a_wrong_line_is_named(text: str, message: str) -> None:
    """The error names the file, the line and the value."""
    with pytest.raises(FabricError) as error:
        read(text)
    assert message in str(error.value)
    assert str(error.value).startswith("topology.conf")


def test_recognition() -> None:
    """The first line decides."""
    assert is_slurm_conf("SwitchName=a")
    assert is_slurm_conf("  blockname = a")
    assert not is_slurm_conf("Switch\t65")
    assert not is_slurm_conf("vendid=0x2c9")
