"""The domains of each level of a fabric.

A fat tree is not a tree: a leaf switch has many spines. A node of a rail-optimized cluster has a leaf for each HCA. So
a level is defined by what connects the nodes, not by parents:

    level 0    nodes whose HCAs are connected to the same leaves
    level n    domains of the level below whose leaves are connected by switches up to tier n
    last       domains that are connected at all, if links between switches of one tier connect more of them

The tier of a switch is its distance from the nearest leaf, and that of a leaf is 0. A link within a tier counts only
for the last level. So the groups of a Dragonfly+ fabric and the switches of a torus remain separate below it.

The leaves of a domain may be in several components, such as the planes of its rails. Domains with the same set of
components are one domain. A node with a cable or a name less than its neighbours has only a part of their set. A set
joins the larger set of the domain that contains it and has more nodes. If several do, the one with the most nodes
counts. If two have equally many, the set remains a domain of its own. So a wrong cable separates one node, and never
joins two domains.

Invariants: each node is in one domain of each level. Domains of a level are divided by the level below. The result
depends neither on the order of the file nor, up to names, on the names in it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fabric.components import Components
from zonewise_scheduler.fabric.label_values import digest, label_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.fabric.types import NetworkFabric

Key = frozenset[str]
"""Leaves, or components of switches."""


class FabricDomain(NamedTuple):
    """Nodes that are equally close to each other at a level."""

    name: str
    """Unique in its level, and a valid label value."""
    leaves: frozenset[str]
    """Ids of the leaf switches."""
    nodes: tuple[str, ...]
    """Names of the nodes, sorted."""


class FabricLevels(NamedTuple):
    """All levels of a fabric."""

    levels: tuple[tuple[FabricDomain, ...], ...]
    """Domains by name for each level, the closest first."""
    partial: tuple[str, ...] = ()
    """Nodes that lack a leaf of their domain."""
    mixed: tuple[str, ...] = ()
    """Nodes in a domain of their own that share leaves with a larger one."""


def fabric_levels(fabric: NetworkFabric, leaves_by_node: Mapping[str, frozenset[str]]) -> FabricLevels:
    """Return the levels for the nodes with at least one leaf.

    Upper levels that connect no leaves are left out. The number of levels depends only on the fabric, so a Topology
    remains valid if nodes join the cluster.
    """
    leaves_by_node = {node: leaves for node, leaves in leaves_by_node.items() if leaves}
    if not leaves_by_node:
        return FabricLevels(())
    leaves = {leaf for hca in fabric.hcas for leaf in hca.leaves}
    tiers = _tiers(fabric, leaves)
    components = Components({switch: (-tier, fabric.switches[switch].name) for switch, tier in tiers.items()})
    domains = _merged((FabricDomain("", own, (node,)) for node, own in leaves_by_node.items()), components)
    levels = [_named(domains, components, fabric)]
    parts = [len(leaves)]
    for links in _links_by_level(fabric, tiers):
        for one, two in links:
            components.join(one, two)
        domains = _merged(domains, components)
        levels.append(_named(domains, components, fabric))
        parts.append(len(set(map(components.root, leaves))))
    while len(parts) > 1 and parts[-1] == parts[-2]:
        parts.pop()
    partial = (node for domain in levels[0] for node in domain.nodes if leaves_by_node[node] != domain.leaves)
    return FabricLevels(tuple(levels[: len(parts)]), tuple(sorted(partial)), tuple(sorted(_mixed(levels[0]))))


def _tiers(fabric: NetworkFabric, leaves: Iterable[str]) -> dict[str, int]:
    """Return the tier of each switch that is connected to a leaf: the declared one, or else its distance."""
    neighbours: defaultdict[str, list[str]] = defaultdict(list)
    for one, two in fabric.links:
        neighbours[one].append(two)
        neighbours[two].append(one)
    distances = dict.fromkeys(leaves, 0)
    queue = list(distances)
    for switch in queue:
        for neighbour in neighbours[switch]:
            if neighbour not in distances:
                distances[neighbour] = distances[switch] + 1
                queue.append(neighbour)
    declared = {switch: fabric.switches[switch].tier for switch in distances}
    return {switch: distances[switch] if tier is None else tier for switch, tier in declared.items()}


def _links_by_level(fabric: NetworkFabric, tiers: Mapping[str, int]) -> list[list[tuple[str, str]]]:
    """Return the links that each level above level 0 adds; links within a tier are those of the last level."""
    last = max(tiers.values()) + 1
    links: list[list[tuple[str, str]]] = [[] for _ in range(last)]
    for one, two in fabric.links:
        if one in tiers:
            level = max(tiers[one], tiers[two]) if tiers[one] != tiers[two] else last
            links[level - 1].append((one, two))
    return links


def _merged(domains: Iterable[FabricDomain], components: Components) -> list[FabricDomain]:
    """Return the domains of the next level."""
    groups: defaultdict[Key, list[FabricDomain]] = defaultdict(list)
    for domain in domains:
        groups[frozenset(map(components.root, domain.leaves))].append(domain)
    targets = _targets({key: sum(len(domain.nodes) for domain in group) for key, group in groups.items()})
    members: defaultdict[Key, list[FabricDomain]] = defaultdict(list)
    for key, group in groups.items():
        members[targets[key]] += group
    return [
        FabricDomain(
            "",
            frozenset().union(*(domain.leaves for domain in group)),
            tuple(sorted(node for domain in group for node in domain.nodes)),
        )
        for group in members.values()
    ]


def _targets(counts: Mapping[Key, int]) -> dict[Key, Key]:
    """Return for each set the one that it joins, or itself; `counts` is the number of nodes with exactly this set.

    A set that another one joins does not join a third: it would be contained in it too, with more nodes.
    """
    holders: defaultdict[str, list[Key]] = defaultdict(list)
    for key in counts:
        for component in key:
            holders[component].append(key)
    targets: dict[Key, Key] = {}
    for key in counts:
        rarest = min((holders[component] for component in key), key=len)
        larger = [other for other in rarest if counts[other] > counts[key] and key < other]
        most = max((counts[other] for other in larger), default=0)
        best = [other for other in larger if counts[other] == most]
        targets[key] = best[0] if len(best) == 1 else key
    return targets


def _named(domains: Iterable[FabricDomain], components: Components, fabric: NetworkFabric) -> tuple[FabricDomain, ...]:
    """Return the domains with names: that of the first switch of the highest tier, if no larger domain has it."""
    groups: defaultdict[str, list[FabricDomain]] = defaultdict(list)
    for domain in domains:
        _, name = min(components.rank(components.root(leaf)) for leaf in domain.leaves)
        groups[label_value(name)].append(domain)
    named: list[FabricDomain] = []
    for name, group in groups.items():
        leaves = {domain: sorted(fabric.switches[leaf].name for leaf in domain.leaves) for domain in group}
        first, *others = sorted(group, key=lambda domain: (-len(domain.nodes), leaves[domain]))
        named.append(first._replace(name=name))
        named += [domain._replace(name=label_value(f"{name}/{digest(' '.join(leaves[domain]))}")) for domain in others]
    return tuple(sorted(named))


def _mixed(domains: Iterable[FabricDomain]) -> set[str]:
    """Return the nodes of domains that share a leaf with another one of at least their size."""
    holders: defaultdict[str, list[FabricDomain]] = defaultdict(list)
    for domain in domains:
        for leaf in domain.leaves:
            holders[leaf].append(domain)
    return {
        node
        for group in holders.values()
        for domain in group
        if any(len(other.nodes) >= len(domain.nodes) for other in group if other is not domain)
        for node in domain.nodes
    }
