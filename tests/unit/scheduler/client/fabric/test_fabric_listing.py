"""The tables and sentences about a fabric."""

from __future__ import annotations

from support.fabrics import Cabling, cabling, dump, fat_tree, hca, read
from zonewise_common.cli.output_format import TABLE, render_listing
from zonewise_common.cli.terminal import Terminal
from zonewise_scheduler.client.fabric.fabric_listing import fabric_notes, list_fabric, missing_nodes
from zonewise_scheduler.fabric.levels import fabric_levels
from zonewise_scheduler.fabric.matching import NodeNames, match_hosts, match_nodes


def listed(tree: Cabling, *labels: str) -> str:
    fabric = read(dump(tree))
    return render_listing(
        list_fabric(fabric_levels(fabric, match_hosts(fabric.hcas).leaves), labels), TABLE, Terminal()
    )


def notes(tree: Cabling, *nodes: str) -> list[str]:
    """Return the sentences about hosts, or about the nodes of a cluster."""
    fabric = read(dump(tree))
    match = match_nodes(fabric.hcas, map(NodeNames, nodes)) if nodes else match_hosts(fabric.hcas)
    return [*fabric_notes(fabric, match, fabric_levels(fabric, match.leaves)), *missing_nodes(nodes, match)]


def test_domains_are_below_their_parents() -> None:
    """Only those of the lowest level show their nodes."""
    assert listed(fat_tree(pods=2, units=1, rails=2, hosts=3), "t0", "t1", "t2").splitlines() == [
        "LEVEL   LABEL   DOMAINS",
        "2       t2            1",
        "1       t1            2",
        "0       t0            2",
        "",
        "DOMAIN           LEAVES   NODES   NAMES",
        "core-0                4       6",
        "  spine-0-0           2       3",
        "    leaf-0-0-0        2       3   node-0-0-[0-2]",
        "  spine-1-0           2       3",
        "    leaf-1-0-0        2       3   node-1-0-[0-2]",
    ]


def test_a_level_without_a_label() -> None:
    """It is shown, so that a user sees what --labels leaves out."""
    assert "1                     1" in listed(fat_tree(units=2), "t0")


def test_no_domain() -> None:
    """Switches without a node."""
    assert listed(cabling([("Sa", "Sb")])) == "no node has a link to a switch\n"


def test_notes() -> None:
    """Nothing that gets no label is silent."""
    tree = fat_tree(units=2, rails=3, hosts=4)
    assert notes(tree) == []
    texts = {hca("node-0-0-0", 1): "MT4129 ConnectX7   Mellanox", hca("node-0-1-0", 0): "node-0-1-1 mlx5_0"}
    assert notes(tree._replace(descriptions={**tree.descriptions, **texts})) == [
        "1 HCA has no host in the node description: leaf-0-0-1 (1)",
        "1 node description belongs to several HCAs: node-0-1-1 mlx5_0",
        "2 nodes lack a leaf of their domain: node-0-0-0,node-0-1-0",
    ]
    wrong = [(one, "Sleaf-0-1-2" if one == hca("node-0-0-0", 2) else two) for one, two in tree.cables]
    assert notes(cabling(wrong)) == ["1 node shares leaves with another domain: node-0-0-0"]


def test_notes_about_a_cluster() -> None:
    """Hosts and nodes without a counterpart."""
    tree = fat_tree(units=1, hosts=3)
    assert notes(tree, "node-0-0-0", "node-0-0-1.a", "node-0-0-1.b", "gpu7", "gpu8") == [
        "1 host may be several nodes: node-0-0-1",
        "1 host is not a node of the cluster: node-0-0-2",
        "4 nodes of the cluster are not in the files: gpu[7-8],node-0-0-1.a,node-0-0-1.b",
    ]


def test_many_names_are_shortened() -> None:
    """A sentence remains a sentence."""
    cables = [(hca(f"{chr(97 + i % 26)}{chr(97 + i // 26)}-x", 0), "Sleaf") for i in range(100)]
    (text,) = notes(cabling(cables), "other")[:1]
    assert text.startswith("100 hosts are not nodes of the cluster: aa-x, ")
    assert text.endswith(" and 90 more")
