"""Which node each HCA belongs to."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.fabric.matching import FabricMatch, NodeNames, match_hosts, match_nodes
from zonewise_scheduler.fabric.types import Hca

LEAF = frozenset({"leaf"})


def one(host: str, *, guid: str = "", device: str = "mlx5_0", leaves: frozenset[str] = LEAF) -> Hca:
    return Hca(guid, f"{host} {device}" if host else "MT4129 ConnectX7   Mellanox Technologies", host, leaves)


def matched(hca: Hca, *nodes: NodeNames) -> list[str]:
    return list(match_nodes([hca], nodes).leaves)


def named(name: str, *aliases: str, guids: tuple[str, ...] = ()) -> NodeNames:
    return NodeNames(name, frozenset(aliases), frozenset(guids))


def test_without_a_cluster_each_host_is_a_node() -> None:
    """All HCAs of a host count together."""
    hcas = [one("n1"), one("n1", device="mlx5_1", leaves=frozenset({"other"})), one("")]
    match = match_hosts(hcas)
    assert match.leaves == {"n1": {"leaf", "other"}}
    assert match.unnamed == (hcas[2],)


def test_short_and_full_names() -> None:
    """A short name fits a full one with the same beginning. Two full names must be equal."""
    assert matched(one("n1"), named("n1")) == ["n1"]
    assert matched(one("n1"), named("n1.example.com")) == ["n1.example.com"]
    assert matched(one("n1.example.com"), named("n1")) == ["n1"]
    assert matched(one("n1.example.com"), named("n1.example.org")) == []
    assert matched(one("n1.example.com"), named("n1", "n1.example.org")) == []
    assert matched(one("n1"), named("ip-10-0-0-1", "n1.example.com")) == ["ip-10-0-0-1"]
    assert matched(one("n10"), named("n1")) == []


def test_an_exact_name_is_better_than_a_short_one() -> None:
    """The node n1 is meant, although n1.example.com is short for n1 too."""
    assert matched(one("n1"), named("n1"), named("n1.example.com")) == ["n1"]


def test_a_host_that_fits_two_nodes_belongs_to_none() -> None:
    """It is reported."""
    match = match_nodes([one("n1")], [named("n1.a.com"), named("n1.b.com")])
    assert (match.leaves, match.ambiguous, match.unmatched) == ({}, ("n1",), ())


def test_a_host_outside_the_cluster_is_reported() -> None:
    """Such as a storage server."""
    match = match_nodes([one("storage")], [named("n1")])
    assert (match.leaves, match.unmatched) == ({}, ("storage",))


def test_the_guid_decides() -> None:
    """An HCA without a name belongs to its node; a wrong name does not count."""
    nodes = [named("n1", guids=("aa",)), named("n2", guids=("bb",))]
    assert matched(one("", guid="aa"), *nodes) == ["n1"]
    assert matched(one("n1", guid="bb"), *nodes) == ["n2"]


def test_a_guid_of_two_nodes_decides_nothing() -> None:
    """Reports of two nodes may be copies of each other."""
    assert matched(one("n2", guid="aa"), named("n1", guids=("aa",)), named("n2", guids=("aa",))) == ["n2"]


def test_a_description_of_two_hcas_belongs_to_no_node() -> None:
    """Two machines with the same image may have the same name, so no HCA of that name counts."""
    match = match_hosts([one("n1", guid="aa"), one("n1", guid="bb"), one("n1", guid="cc", device="mlx5_1"), one("n2")])
    assert list(match.leaves) == ["n2"]
    assert match.repeated == ("n1 mlx5_0",)


def test_a_name_map_without_devices() -> None:
    """All HCAs of a node have the same text, which is no repetition."""
    hcas = [Hca(guid, "n1", "n1", frozenset({guid})) for guid in ("aa", "bb")]
    assert match_hosts(hcas).leaves == {"n1": {"aa", "bb"}}


def test_a_node_without_a_link_is_reported() -> None:
    """All of its ports are down."""
    match = match_hosts([one("n1", leaves=frozenset())])
    assert (match.leaves, match.unlinked) == ({}, ("n1",))


NAMES = st.sampled_from(["n1", "n2", "n1.a", "n1.b", "n2.a", ""])
HCAS = st.lists(st.builds(one, NAMES, guid=st.sampled_from(["", "aa", "bb"]), device=st.sampled_from(["a_0", "a_1"])))
NODES = st.lists(
    st.builds(
        NodeNames, NAMES.filter(bool), st.frozensets(NAMES.filter(bool)), st.frozensets(st.sampled_from(["aa", "bb"]))
    ),
    unique_by=lambda node: node.name,
)


@given(HCAS, NODES)
def test_the_order_does_not_matter(hcas: list[Hca], nodes: list[NodeNames]) -> None:
    """Neither that of HCAs nor that of nodes."""

    def result(match: FabricMatch) -> object:
        return match._replace(unnamed=tuple(sorted(match.unnamed)))

    assert result(match_nodes(hcas[::-1], nodes[::-1])) == result(match_nodes(hcas, nodes))


@given(HCAS, NODES)
def test_each_host_is_in_one_place(hcas: list[Hca], nodes: list[NodeNames]) -> None:
    """Nodes are those of the cluster, and no host disappears without a report."""
    match = match_nodes(hcas, nodes)
    assert set(match.leaves) <= {node.name for node in nodes}
    if not match.leaves:
        reported = {*match.unmatched, *match.ambiguous, *(text.split()[0] for text in match.repeated)}
        assert {hca.host for hca in hcas} - {""} <= reported | {node.name for node in nodes}
