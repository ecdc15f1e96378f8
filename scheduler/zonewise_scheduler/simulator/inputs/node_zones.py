"""The zones of a node of which only counts are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.node import NodeState, Policies, amounts_by_resource
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, PODS

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import Resource

_NEAR, _FAR = 10, 20
"""Distances of a machine with two packages (ACPI SLIT): in a zone, and to another."""
_MILLI = 1000


class ZoneLayout(NamedTuple):
    """How a node is divided."""

    zones: int
    policy: str = "none"
    """topologyManagerPolicy."""
    scope: str = "container"
    """topologyManagerScope."""


def idle_state(room: Resource, zoning: ZoneLayout) -> NodeState | None:
    """Return the state of a node whose resources are the same in each zone, as far as they can be divided.

    Its CPU Manager is static; its Memory Manager gives nothing, since no counts of it are known. A core has one thread.
    """
    policies = Policies(zoning.policy, zoning.scope, cpu="static")
    shared = {name: amount // _MILLI if name == CPU else amount for name, amount in amounts_by_resource(room)}
    countable = {name: amount for name, amount in shared.items() if name not in {PODS, EPHEMERAL_STORAGE} and amount}
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [
                _resource(name, _share(all_of_it, zone, zoning.zones)) for name, all_of_it in countable.items()
            ],
            "costs": [
                {"name": f"node-{other}", "value": _NEAR if other == zone else _FAR} for other in range(zoning.zones)
            ],
        }
        for zone in range(zoning.zones)
    ]
    found = read_nrt({"metadata": {"name": "a node"}, "zones": zones}, KindInterner(), policies=policies, threads=1)
    return found.state


def _share(amount: int, zone: int, zones: int) -> int:
    """Return what one zone has; the first ones have what cannot be divided."""
    return amount // zones + (zone < amount % zones)


def _resource(name: str, amount: int) -> dict[str, str]:
    text = str(amount)
    return {"name": name, "capacity": text, "allocatable": text, "available": text}
