"""Nodes with admitted pods, and reports with the holdings of each pod."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from support.extender import build_nrt
from support.occupied_nodes import holdings_of
from zonewise_common.k8s.cpuset import CpuSet
from zonewise_common.nrt import names
from zonewise_common.nrt.holdings import NODE, Holdings, holdings_key, write_holdings
from zonewise_scheduler.admission.admit import admit
from zonewise_scheduler.admission.node import NO_ZONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.pod import PodShape


class RunningNode(NamedTuple):
    """A node with admitted pods."""

    idle: NodeState
    state: NodeState
    held: dict[str, Holdings]
    """By pod name."""
    shapes: dict[str, PodShape]

    def texts(self) -> tuple[tuple[int, str], ...]:
        return texts(self.state, self.held)

    def report(self, node: str) -> str:
        """Return the report of a node as JSON."""
        nrt = build_nrt(node, self.state)
        by_zone = dict(self.texts())
        nrt["attributes"].append({"name": names.HOLDINGS, "value": by_zone.get(NODE, "")})
        for zone in nrt["zones"]:
            number = int(zone["name"].rpartition("-")[2])
            if zone["type"] == "Node" and number in by_zone:
                zone["attributes"].append({"name": names.HOLDINGS, "value": by_zone[number]})
        return json.dumps(nrt)


def texts(state: NodeState, held: Mapping[str, Holdings]) -> tuple[tuple[int, str], ...]:
    """Return the holdings in a report."""
    zone_cpus = {zone: CpuSet() for zone in state.kind.zones} | {
        zone: CpuSet.from_bits(cpus) for zone, cpus in state.kind.cpus.zones
    }
    keyed = ((key_of(name), holdings) for name, holdings in held.items())
    return tuple((zone, text) for zone, text in write_holdings(keyed, zone_cpus).items() if text)


def key_of(name: str) -> str:
    return holdings_key("ns", name)


def running_node(idle: NodeState, shapes: Iterable[PodShape]) -> RunningNode:
    """Return the node after pods p0, p1, ... arrived, without those that it rejected."""
    state = idle
    held: dict[str, Holdings] = {}
    admitted: dict[str, PodShape] = {}
    for index, shape in enumerate(shapes):
        verdict = admit(state, shape)
        if verdict.after is not None:
            state = verdict.after
            held[f"p{index}"] = without_absent_zones(holdings_of(verdict.assignments))
            admitted[f"p{index}"] = shape
    return RunningNode(idle, state, held, admitted)


def without_absent_zones(holdings: Holdings) -> Holdings:
    """Return holdings as the agent writes them: a device whose zones are not on the node has none."""
    return holdings._replace(
        amounts=tuple(sorted((name, zones & ~NO_ZONE, amount) for name, zones, amount in holdings.amounts))
    )
