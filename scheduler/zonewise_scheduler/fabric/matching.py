"""Which node of the cluster each HCA belongs to.

The node GUID decides, if the agent of a node has published it. Otherwise the host in the node description does. A host
is a node with the same name or alias. If one of the two names is short, only the short names are compared. A host that
fits several nodes, and a description that two HCAs have, belong to no node: nothing is guessed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from zonewise_scheduler.fabric.types import Hca


class NodeNames(NamedTuple):
    """How a node of the cluster may appear in a fabric."""

    name: str
    aliases: frozenset[str] = frozenset()
    """Lowercase names: the hostname label, and addresses of type Hostname, InternalDNS and ExternalDNS."""
    guids: frozenset[str] = frozenset()
    """Node GUIDs of its HCAs as 16 hexadecimal digits."""


class FabricMatch(NamedTuple):
    """The result, with everything that is not part of it."""

    leaves: Mapping[str, frozenset[str]]
    """Leaf switches of each node that has any."""
    unnamed: tuple[Hca, ...]
    """HCAs whose host is unknown."""
    unlinked: tuple[str, ...]
    """Nodes without a link to a switch."""
    repeated: tuple[str, ...]
    """Descriptions that several HCAs have."""
    unmatched: tuple[str, ...]
    """Hosts that are not nodes of the cluster."""
    ambiguous: tuple[str, ...]
    """Hosts that may be several nodes of the cluster."""


def match_hosts(hcas: Iterable[Hca]) -> FabricMatch:
    """Match without a cluster: each host is a node of that name."""
    return _match(hcas, {}, lambda host: [host])


def match_nodes(hcas: Iterable[Hca], nodes: Iterable[NodeNames]) -> FabricMatch:
    """Match with the nodes of a cluster."""
    index = _NodeIndex()
    for node in nodes:
        index.add(node)
    return _match(hcas, {guid: owners[0] for guid, owners in index.by_guid.items() if len(owners) == 1}, index.nodes_of)


class _NodeIndex:
    """The nodes of a cluster by their GUIDs and names."""

    def __init__(self) -> None:
        self.by_guid: defaultdict[str, list[str]] = defaultdict(list)
        self._by_name: defaultdict[str, set[str]] = defaultdict(set)
        self._by_short_name: defaultdict[str, set[str]] = defaultdict(set)
        self._with_full_name: set[str] = set()

    def add(self, node: NodeNames) -> None:
        for guid in node.guids:
            self.by_guid[guid].append(node.name)
        for name in {node.name.lower(), *node.aliases}:
            short, dot, _ = name.partition(".")
            self._by_name[name].add(node.name)
            self._by_short_name[short].add(node.name)
            if dot:
                self._with_full_name.add(node.name)

    def nodes_of(self, host: str) -> Collection[str]:
        """Return the nodes that a host may be."""
        if host in self._by_name:
            return self._by_name[host]
        short, dot, _ = host.partition(".")
        return self._by_name.get(short, set()) - self._with_full_name if dot else self._by_short_name.get(short, ())


def _match(
    hcas: Iterable[Hca], node_by_guid: Mapping[str, str], nodes_of: Callable[[str], Collection[str]]
) -> FabricMatch:
    hcas = tuple(hcas)
    counts = Counter(hca.description for hca in hcas if hca.host and " " in hca.description)
    repeated = {hca.host for hca in hcas if counts[hca.description] > 1}
    leaves: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    unnamed: list[Hca] = []
    unmatched: set[str] = set()
    ambiguous: set[str] = set()
    for hca in hcas:
        nodes = [node_by_guid[hca.guid]] if hca.guid in node_by_guid else nodes_of(hca.host) if hca.host else ()
        if hca.guid not in node_by_guid and hca.host in repeated:
            continue
        if len(nodes) == 1:
            leaves[next(iter(nodes))] |= hca.leaves
        elif not hca.host:
            unnamed.append(hca)
        else:
            (ambiguous if nodes else unmatched).add(hca.host)
    return FabricMatch(
        {node: switches for node, switches in leaves.items() if switches},
        tuple(unnamed),
        tuple(sorted(node for node, switches in leaves.items() if not switches)),
        tuple(sorted(text for text, count in counts.items() if count > 1)),
        tuple(sorted(unmatched)),
        tuple(sorted(ambiguous)),
    )
