"""The nodes of the page, with resources by zone and workloads. A row is built again when its node changes.

Amounts are integers: milli-CPU, bytes, counts. An unknown amount is null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError, FieldReader
from zonewise_common.nrt.holdings import read_holdings
from zonewise_scheduler.admission.resource_names import MEMORY
from zonewise_scheduler.controller.nodes.node_tracker import total_requests
from zonewise_scheduler.nodes.node.node_info import read_node_info
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.quota.api.gpu_resource import is_gpu
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_common.nrt.holdings import Holdings
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.controller.nodes.node_view import NodeRevision
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.tas.cluster_nodes import LastReport

NODE_COLUMNS = (
    "domains", "state", "cpus", "cpusUsed", "memory", "memoryUsed", "gpus", "gpusUsed", "pods", "podsUsed", "zones",
    "runs",
)  # fmt: skip
ZONE_COLUMNS = ("zone", "cpus", "cpusFree", "gpus", "gpusFree", "memory", "memoryFree")
"""Here, CPUs are whole CPUs."""
RUN_COLUMNS = ("workload", "pods", "cpus", "gpus", "zones")
"""The workload "" stands for all pods outside the queue; zones: ids, empty if unknown."""
_RACK_LABELS = ("topology.kubernetes.io/rack", "rack")
"""Labels of levels, used if no Topology names levels above nodes."""
_OBJECT = msgspec.json.Decoder(dict[str, Any])
Row = tuple[object, ...]


class NodeSight(NamedTuple):
    """A node that has changed, with its last report."""

    revision: NodeRevision
    report: LastReport | None


class _Run(NamedTuple):
    pods: int = 0
    cpus: int = 0
    gpus: int = 0
    zones: int = 0
    """Zones as a bit mask."""


def level_labels(topologies: Iterable[Json]) -> tuple[str, ...]:
    """Return the label keys of the levels above nodes, from the Topology with the most levels."""
    best: tuple[str, ...] = ()
    for topology in topologies:
        levels = FieldReader(topology, "", []).child("spec").children("levels")
        above = tuple(key for level in levels if (key := level.text("nodeLabel")) != HOSTNAME)
        best = max(best, above, key=len)
    return best


def node_row(sight: NodeSight, levels: Sequence[str]) -> Row:
    """Return the values of NODE_COLUMNS."""
    node = sight.revision.node
    try:
        info = read_node_info(_OBJECT.decode(node.content))
    except FieldError as error:
        return ((), f"Invalid: {error}", *[None] * (len(NODE_COLUMNS) - 4), (), ())
    used = total_requests(sight.revision.pods)
    state = "NotReady" if not node.health.ready else "Unschedulable" if info.unschedulable else "Ready"
    total = info.allocatable
    return (
        _domains(info, levels),
        state,
        total.milli_cpus,
        used.milli_cpus,
        total.memory,
        used.memory,
        gpu_count(total.scalar_resources),
        gpu_count(used.scalar_resources),
        total.pods,
        used.pods,
        () if sight.report is None else tuple(_zones(sight.report.state)),
        _runs(sight),
    )


def gpu_count(scalar_resources: Iterable[tuple[str, int]]) -> int:
    """Return the number of GPUs among scalar resources."""
    return sum(size for name, size in scalar_resources if is_gpu(name))


def _domains(info: NodeInfo, levels: Sequence[str]) -> tuple[str, ...]:
    """Return the label values of the levels, highest first; levels that the node lacks are omitted."""
    values = tuple(value for key in levels if (value := info.label(key)))
    return values or tuple(value for key in _RACK_LABELS if (value := info.label(key)))[:1]


def _zones(state: NodeState) -> Iterator[Row]:
    kind = state.kind
    cpus_of = {group[0]: group[1] for group in kind.cpus.zones}
    free_known, memory = kind.policies.cpu == "static", MEMORY in kind.memory_types and kind.policies.memory == "Static"
    column = kind.memory_types.index(MEMORY) if MEMORY in kind.memory_types else 0
    for index, zone in enumerate(kind.zones):
        cpus = cpus_of.get(zone, 0)
        gpus, free_gpus = _zone_gpus(state, zone)
        yield (
            zone,
            cpus.bit_count(),
            (state.free_cpus & cpus).bit_count() if free_known else None,
            gpus,
            free_gpus,
            kind.allocatable[index][column] if memory and index < len(kind.allocatable) else None,
            state.memory_free[index][column] if memory and index < len(state.memory_free) else None,
        )


def _zone_gpus(state: NodeState, zone: int) -> tuple[int, int]:
    """Return the GPUs of a zone, and the free ones. A GPU close to several zones counts in the lowest one."""
    total = free = 0
    for device, available in zip(state.kind.devices, state.device_free, strict=False):
        if is_gpu(device.resource) and (device.zones & -device.zones) == 1 << zone:
            total += device.healthy
            free += available
    return total, free


def _runs(sight: NodeSight) -> tuple[Row, ...]:
    """Return what runs on the node by workload, as the values of RUN_COLUMNS."""
    holdings = _holdings(sight.report)
    zone_cpus = () if sight.report is None else sight.report.state.kind.cpus.zones
    runs: dict[str, _Run] = {}
    for key, same in sight.revision.pods.items():
        zones = _zones_of(holdings[key], zone_cpus) if key in holdings and len(same) == 1 else 0
        for pod in same:
            run, requests = runs.get(pod.workload, _Run()), pod.requests or NO_RESOURCES
            runs[pod.workload] = _Run(
                run.pods + 1,
                run.cpus + requests.milli_cpus,
                run.gpus + gpu_count(requests.scalar_resources),
                run.zones | zones,
            )
    return tuple(
        (name, run.pods, run.cpus, run.gpus, [zone for zone in range(run.zones.bit_length()) if run.zones >> zone & 1])
        for name, run in sorted(runs.items())
    )


def _holdings(report: LastReport | None) -> dict[str, Holdings]:
    try:
        return {} if report is None or report.texts is None else read_holdings(report.texts)
    except ValueError:  # damaged: the reader of reports has already logged it
        return {}


def _zones_of(holdings: Holdings, zone_cpus: Iterable[tuple[int, int]]) -> int:
    """Return the zones of the resources that a pod holds, as a bit mask."""
    zones = 0
    for zone, cpus in zone_cpus:
        if holdings.cpus & cpus:
            zones |= 1 << zone
    for _, amount_zones, _ in holdings.amounts:
        zones |= amount_zones
    return zones
