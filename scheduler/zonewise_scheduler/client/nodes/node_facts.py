"""Nodes and their zones as values, read from the Node, its NodeResourceTopology and its pods.

The amounts of a zone are those of the report: what a Guaranteed pod could get exclusively. Shared CPUs and the memory
of other pods belong to no zone. The node as a whole therefore has separate amounts, computed from the requests of its
pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.nrt.attributes import read_attributes
from zonewise_common.nrt.holdings import NODE as NODE_HOLDINGS
from zonewise_common.nrt.holdings import holdings_key, read_holdings
from zonewise_common.nrt.names import FREE_CPUS, HOLDINGS
from zonewise_common.nrt.zones import NODE, read_resources, zone_id
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.gpu_resource import is_gpu

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_common.nrt.attributes import ResourceInfo
    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.client.jobs.pod_facts import PodFacts

Json = dict[str, Any]

CPU, MEMORY = "cpu", "memory"
_COMMON = frozenset({CPU, MEMORY, "pods", "ephemeral-storage"})
_READY = "Ready"


class ZoneFacts(NamedTuple):
    """A NUMA node, with its CPUs, bytes of memory and devices."""

    id: int
    resources: Mapping[str, ResourceInfo]
    free_cpus: str = ""
    """The CPUs that can be assigned exclusively, as a CPU list; "" if the report does not list them."""

    def free(self, resource: str) -> int | None:
        """Return the available amount of a resource, in whole CPUs for cpu; None if the zone lacks the resource."""
        info = self.resources.get(resource)
        return None if info is None else info.available


class ClassDevices(NamedTuple):
    """The devices of a DeviceClass on a node, at most."""

    free: int | None
    """Devices that no claim holds; None if unknown."""
    total: int


class NodeAvailability(NamedTuple):
    """A node. Amounts are in milli-CPU, bytes and counts."""

    name: str
    ready: bool | None = None
    """None if unknown."""
    schedulable: bool = True
    """Whether its spec.unschedulable is false."""
    allocatable: Mapping[str, int] = {}
    requested: Mapping[str, int] | None = {}
    """Amounts that the pods bound to it request; None if unknown."""
    zones: tuple[ZoneFacts, ...] | None = None
    """None if it has no NodeResourceTopology."""
    policy: str = ""
    """Policy and scope of the Topology Manager: "single-numa-node/container"."""
    problems: tuple[str, ...] = ()
    """Abnormal conditions of the Node, with their messages."""
    pods: tuple[PodFacts, ...] | None = ()
    """Running pods that are bound to it; None if the user may not list them."""
    holdings: Mapping[str, Holdings] = {}
    """Resources that pods hold exclusively, by holdings_key()."""
    class_devices: Mapping[str, ClassDevices] = {}
    """Devices of ResourceSlices by DeviceClass; a device may be in several classes."""

    def free(self, resource: str) -> int | None:
        """Return the free amount of a resource for pods of any kind; None if unknown or if the node lacks it."""
        total = self.allocatable.get(resource)
        if total is None or self.requested is None:
            return None
        return max(0, total - self.requested.get(resource, 0))

    def held_by(self, pod: PodFacts) -> Holdings | None:
        """Return the resources that a pod holds exclusively; None if there are none or the report lists none."""
        return self.holdings.get(holdings_key(pod.namespace, pod.name))

    @property
    def devices(self) -> list[str]:
        """Return the node's extended resources, GPUs first."""
        names = {name for name in self.allocatable if name not in _COMMON and not name.startswith("hugepages-")}
        for zone in self.zones or ():
            names |= {name for name in zone.resources if name not in _COMMON and not name.startswith("hugepages-")}
        return sorted(names, key=lambda name: (not is_gpu(name), name))


def free_gpus(node: NodeAvailability) -> int | None:
    """Return the number of free GPUs of a node, of all kinds together; None if it has none or it is unknown."""
    amounts = [node.free(name) or 0 for name in node.devices if is_gpu(name)]
    return sum(amounts) if amounts and node.requested is not None else None


def zone_gpus(zone: ZoneFacts) -> int | None:
    """Return the number of free GPUs of a zone; None if it has none."""
    amounts = [info.available for name, info in zone.resources.items() if is_gpu(name)]
    return sum(amounts) if amounts else None


def zone_cpus(zone: ZoneFacts) -> int | None:
    """Return the number of CPUs of a zone that can be assigned exclusively."""
    return zone.free(CPU)


def largest_block(amounts: Iterable[int | None]) -> int | None:
    """Return the largest amount; None if none is known."""
    return max((amount for amount in amounts if amount is not None), default=None)


def largest_share(amounts: Iterable[int | None]) -> float | None:
    """Return the largest amount divided by the sum: 1 if everything free is in one zone, None if nothing is free."""
    known = [amount for amount in amounts if amount is not None]
    return max(known) / sum(known) if sum(known) > 0 else None


def read_node_facts(
    name: str,
    node: Mapping[str, Any] | None,
    report: Mapping[str, Any] | None,
    pods: Sequence[PodFacts] | None,
    problems: list[str],
) -> NodeAvailability:
    """Return a node; `report` is its NodeResourceTopology, and `pods` are None if unknown.

    Damaged fields are reported as problems.
    """
    reader = FieldReader(node or {}, "", problems)
    status = reader.child("status")
    conditions = {entry.text("type"): entry for entry in status.children("conditions")}
    ready = conditions.get(_READY)
    bound = None if pods is None else tuple(pod for pod in pods if pod.node == name and pod.holds_resources)
    facts = NodeAvailability(
        name,
        None if ready is None else ready.text("status") == "True",
        not reader.child("spec").flag("unschedulable", default=False),
        status.amounts("allocatable", resource_value),
        None if bound is None else _requested(bound),
        problems=tuple(_condition_problems(conditions)),
        pods=bound,
    )
    return facts if report is None else _with_report(facts, report, problems)


def _requested(pods: Sequence[PodFacts]) -> dict[str, int]:
    requested: dict[str, int] = {"pods": len(pods)}
    for pod in pods:
        for resource, amount in pod.requests.items():
            requested[resource] = requested.get(resource, 0) + amount
    return requested


def _condition_problems(conditions: Mapping[str, FieldReader]) -> Iterable[str]:
    """Yield the abnormal conditions.

    Conditions about readiness, such as Ready and NetworkingReady, are abnormal unless they are True. Any other is
    abnormal while it is True (MemoryPressure, or a hardware fault).
    """
    for name, condition in conditions.items():
        is_readiness = name.endswith(_READY)
        if (condition.text("status") == "True") != is_readiness:
            words = [f"not {name}" if is_readiness else name, condition.text("reason"), condition.text("message")]
            yield ": ".join(filter(None, words))


def _with_report(facts: NodeAvailability, report: Mapping[str, Any], problems: list[str]) -> NodeAvailability:
    attributes = read_attributes(report, "", problems)
    zones: list[ZoneFacts] = []
    texts = [(NODE_HOLDINGS, attributes.get(HOLDINGS, ""))]
    for reader in FieldReader(report, "", problems).children("zones"):
        path = reader.path.rstrip(".")
        own = read_attributes(reader.obj, path, problems)
        number = zone_id(reader.text("name"), NODE) if reader.text("type") == NODE else None
        if number is None:
            continue
        zones.append(ZoneFacts(number, read_resources(reader.obj, path, problems), own.get(FREE_CPUS, "")))
        texts.append((number, own.get(HOLDINGS, "")))
    policy = "/".join(filter(None, (attributes.get(f"topologyManager{part}", "") for part in ("Policy", "Scope"))))
    try:
        holdings = read_holdings(texts)
    except ValueError as error:
        problems.append(f"{facts.name}: {HOLDINGS}: {error}")
        holdings = {}
    zones.sort(key=lambda zone: zone.id)
    return facts._replace(zones=tuple(zones), policy=policy, holdings=holdings)
