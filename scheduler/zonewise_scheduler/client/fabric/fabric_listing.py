"""The levels of a fabric as tables, and what is not part of them as sentences."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

from zonewise_common.cli.output_format import Listing
from zonewise_common.cli.table import Column, Table, make_table
from zonewise_common.phrases import first_names, of_number
from zonewise_scheduler.fabric.host_lists import fold

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.fabric.levels import FabricDomain, FabricLevels
    from zonewise_scheduler.fabric.matching import FabricMatch
    from zonewise_scheduler.fabric.types import NetworkFabric

_INDENT = "  "
_MAX_TEXT = 300


def list_fabric(levels: FabricLevels, labels: Sequence[str]) -> Listing:
    """Return a table of levels, the widest first, and one of domains with their nodes."""
    return Listing((_levels(levels, labels), _domains(levels)), None, empty="no node has a link to a switch")


def _levels(levels: FabricLevels, labels: Sequence[str]) -> Table:
    rows = [
        (str(level), labels[level] if level < len(labels) else "", str(len(domains)))
        for level, domains in reversed([*enumerate(levels.levels)])
    ]
    return make_table((Column("LEVEL"), Column("LABEL"), Column("DOMAINS", right=True)), rows)


def _domains(levels: FabricLevels) -> Table:
    columns = (
        Column("DOMAIN"),
        Column("LEAVES", right=True),
        Column("NODES", right=True),
        Column("NAMES", shorten="end"),
    )
    return make_table(columns, _rows(_parts(levels), levels.levels[-1] if levels.levels else (), ""))


def _parts(levels: FabricLevels) -> list[dict[str, list[FabricDomain]]]:
    """Return the parts of each domain by its name, for each level but the lowest, the widest level first."""
    parts: list[dict[str, list[FabricDomain]]] = []
    for lower, upper in pairwise(levels.levels):
        owners = {node: domain.name for domain in upper for node in domain.nodes}
        parts_by_name: dict[str, list[FabricDomain]] = {}
        for domain in lower:
            parts_by_name.setdefault(owners[domain.nodes[0]], []).append(domain)
        parts.append(parts_by_name)
    return parts[::-1]


def _rows(
    parts: list[dict[str, list[FabricDomain]]], domains: Iterable[FabricDomain], indent: str
) -> Iterator[tuple[str, ...]]:
    for domain in domains:
        names = "" if parts else fold(domain.nodes)
        yield indent + domain.name, str(len(domain.leaves)), str(len(domain.nodes)), names
        if parts:
            yield from _rows(parts[1:], parts[0][domain.name], indent + _INDENT)


def fabric_notes(fabric: NetworkFabric, match: FabricMatch, levels: FabricLevels) -> Iterator[str]:
    """Yield a sentence for each kind of host, HCA or node that has no label or deserves attention."""
    if match.unnamed:
        places = Counter(", ".join(sorted(fabric.switches[leaf].name for leaf in hca.leaves)) for hca in match.unnamed)
        shown = first_names([f"{place or 'no switch'} ({number})" for place, number in sorted(places.items())])
        noun = of_number(len(match.unnamed), "HCA has", "HCAs have")
        yield f"{len(match.unnamed)} {noun} no host in the node description: {shown}"
    for names, singular, plural in (
        (match.repeated, "node description belongs to several HCAs", "node descriptions belong to several HCAs each"),
        (match.ambiguous, "host may be several nodes", "hosts may be several nodes each"),
        (match.unmatched, "host is not a node of the cluster", "hosts are not nodes of the cluster"),
        (match.unlinked, "node has no link to a switch", "nodes have no link to a switch"),
        (levels.partial, "node lacks a leaf of its domain", "nodes lack a leaf of their domain"),
        (levels.mixed, "node shares leaves with another domain", "nodes share leaves with another domain"),
    ):
        if names:
            yield f"{len(names)} {of_number(len(names), singular, plural)}: {_folded(names)}"


def missing_nodes(nodes: Iterable[str], match: FabricMatch) -> Iterator[str]:
    """Yield a sentence about the nodes of the cluster that are not in the files."""
    names = [node for node in nodes if node not in match.leaves and node not in match.unlinked]
    if names:
        noun = of_number(len(names), "node of the cluster is", "nodes of the cluster are")
        yield f"{len(names)} {noun} not in the files: {_folded(names)}"


def _folded(names: Sequence[str]) -> str:
    """Return names as a host list, or the first few of them."""
    text = fold(names)
    return text if len(text) <= _MAX_TEXT else first_names(names, 10)
