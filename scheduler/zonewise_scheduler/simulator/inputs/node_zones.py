"""Builds the zones of a node of which only the counts are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.node import NodeState, Policies, amounts_by_resource
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, PODS

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Resource

_NEAR, _FAR = 10, 20
"""Distances in a machine with two packages (ACPI SLIT): within a zone, and to another zone."""
_MILLI = 1000


class ZoneLayout(NamedTuple):
    """The zones of a node and its Topology Manager settings."""

    zones: int
    policy: str = "none"
    """topologyManagerPolicy."""
    scope: str = "container"
    """topologyManagerScope."""


def idle_state(allocatable: Resource, layout: ZoneLayout) -> NodeState | None:
    """Return the idle state of a node whose resources are divided evenly among its zones.

    Its CPU Manager policy is static. Its Memory Manager allocates nothing, since the counts of memory types are
    unknown. Each core has one thread.
    """
    policies = Policies(layout.policy, layout.scope, cpu="static")
    whole_units = {
        name: amount // _MILLI if name == CPU else amount for name, amount in amounts_by_resource(allocatable)
    }
    countable = {
        name: amount for name, amount in whole_units.items() if name not in {PODS, EPHEMERAL_STORAGE} and amount
    }
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [_resource(name, _share(total, zone, layout.zones)) for name, total in countable.items()],
            "costs": [
                {"name": f"node-{neighbour}", "value": _NEAR if neighbour == zone else _FAR}
                for neighbour in range(layout.zones)
            ],
        }
        for zone in range(layout.zones)
    ]
    report = read_nrt({"metadata": {"name": "a node"}, "zones": zones}, KindInterner(), policies=policies, threads=1)
    return report.state


def _share(amount: int, zone: int, zones: int) -> int:
    """Return one zone's share; the first zones get the remainder."""
    return amount // zones + (zone < amount % zones)


def _resource(name: str, amount: int) -> dict[str, str]:
    text = str(amount)
    return {"name": name, "capacity": text, "allocatable": text, "available": text}
