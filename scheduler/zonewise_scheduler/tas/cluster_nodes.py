"""The nodes of a live cluster: changes to their objects, reports and pods are written into rows of arrays.

A change contains the name of its node under "node", and any of these fields:

    field      value
    object     a v1.Node as JSON text, or only the part that NodeInfo needs; null: the Node was deleted
    report     a NodeResourceTopology as JSON text; null: it was deleted
    usage      requests of the active pods that the queue does not account for, by resource: milli-CPU, bytes, counts
    pods       the number of these pods
    queuePods  pods of the queue by key of nrt.holdings: {"workload", "podSet"}; {"gone": true}; {"ended": true}; null

An ended pod holds nothing, because its kubelet has reported its end. A gone pod was deleted without such a report, so
it may hold its resources until a report lacks it. Null: two pods have this key, so the holdings of neither are known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from zonewise_common.k8s.fields import FieldError, object_in, objects_in
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_facts import with_node_facts
from zonewise_scheduler.admission.report.node_report import read_nrt
from zonewise_scheduler.admission.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import kubelet_facts, read_node_info, with_name_label
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.tas.flavor_topology import build_flavor_topology
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.zones.kubelet_states import KubeletStates
from zonewise_scheduler.tas.zones.reported_node import NO_REPORT, reported_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.tas.flavor_topology import FlavorTopology
    from zonewise_scheduler.tas.zones.pod_allocation import PodSetKey
    from zonewise_scheduler.tas.zones.reported_node import ReportedNode

Json = dict[str, Any]

_MIN_SPARE_ROWS = 64


class _ClusterNode:
    """All information about one node."""

    __slots__ = ("gone", "info", "queue_pods", "ready", "reported", "row", "texts", "usage")

    def __init__(self) -> None:
        self.row = -1
        """Row in the arrays; -1: there is no Node object."""
        self.info: NodeInfo | None = None
        """The Node object without its pods."""
        self.ready = False
        self.usage = NO_RESOURCES
        self.reported: NodeState | None = None
        """The state according to the report only."""
        self.texts: tuple[tuple[int, str], ...] | None = None
        """The texts of nrt.holdings in the report, by zone."""
        self.queue_pods: dict[str, PodSetKey | None] = {}
        """Pod sets by key of nrt.holdings, as in reported_node()."""
        self.gone: set[str] = set()
        """Keys of the pods that will be dropped once a report lacks them."""

    @property
    def is_known(self) -> bool:
        """Return whether there is any information about the node."""
        return self.info is not None or self.reported is not None or self.usage.pods > 0 or bool(self.queue_pods)

    def set_queue_pods(self, pods: Mapping[str, Json | None]) -> None:
        """Apply the changes in the field queuePods."""
        for key, pod in pods.items():
            self.gone.discard(key)
            if pod is None:
                self.queue_pods.pop(key, None)
            elif "workload" in pod:
                self.queue_pods[key] = (pod["workload"], pod["podSet"])
            elif key in self.queue_pods:
                self.gone.add(key)
                if pod.get("ended"):
                    self.queue_pods[key] = None

    def drop_gone(self) -> None:
        """Drop the gone pods that the report lacks."""
        for key in [key for key in self.gone if not any(f"{key}:" in text for _, text in self.texts or ())]:
            self.gone.discard(key)
            self.queue_pods.pop(key, None)


class LastReport(NamedTuple):
    """The contents of a node's last report."""

    state: NodeState
    texts: tuple[tuple[int, str], ...] | None
    """The texts of nrt.holdings, by zone; None: unknown."""


class ClusterNodes:
    """Implements backfill's NodeFeed. The result depends only on the changes, not on how they are batched."""

    def __init__(self, *, allow_unknown: bool = True) -> None:
        """Start without nodes. `allow_unknown`: nodes without a report admit every pod; otherwise they admit none."""
        self.problems: dict[str, tuple[str, ...]] = {}
        """Problems of invalid objects, by node, "report/NODE" or "ResourceFlavor/NAME"."""
        self._allow_unknown = allow_unknown
        self._nodes: dict[str, _ClusterNode] = {}
        self._kinds = KindInterner()
        self._table = NodeInfoTable(())
        self._ready: list[bool] = []
        self._free_rows: list[int] = []
        self._kubelet_states = KubeletStates((), allow_unknown=allow_unknown)

    def apply(self, changes: Sequence[Json]) -> bool:
        """Apply changes; return whether nodes were added or removed, or changed in more than usage and report."""
        with_object = {change["node"] for change in changes if change.get("object") is not None}
        restructured = self._reserve_rows(sum(1 for name in with_object if self._row(name) < 0))
        for change in changes:
            name = change["node"]
            node = self._nodes.get(name)
            if node is None:
                node = self._nodes[name] = _ClusterNode()
            restructured |= "object" in change and self._set_object(node, name, change["object"])
            if "usage" in change:
                node.usage = _resource(change["usage"], change["pods"])
            if "queuePods" in change:
                node.set_queue_pods(change["queuePods"])
            if "report" in change:
                self._set_report(node, name, change["report"])
            node.drop_gone()
            self._write(node)
            if not node.is_known:
                del self._nodes[name]
        return restructured

    def placements(self, flavors: Iterable[ResourceFlavor], topologies: Mapping[str, Sequence[str]]) -> TASSnapshot:
        """Return the topologies, without usage, of the flavors whose Topology is known and valid."""
        ready = np.array(self._ready, np.bool_)
        flavor_topologies: list[FlavorTopology] = []
        for flavor in flavors:
            if flavor.topology_name not in topologies:
                continue
            label = f"ResourceFlavor/{flavor.name}"
            self.problems.pop(label, None)
            try:
                topology = build_flavor_topology(flavor, topologies[flavor.topology_name], self._table, ready)
            except ValueError as error:
                self.problems[label] = (str(error),)
            else:
                flavor_topologies.append(topology)
        return TASSnapshot(flavor_topologies, kubelet_states=self._kubelet_states)

    def last_report(self, name: str) -> LastReport | None:
        """Return the last report of a node; None if there is none, or if it is unreadable."""
        node = self._nodes.get(name)
        return None if node is None or node.reported is None else LastReport(node.reported, node.texts)

    # --- one node

    def _set_object(self, node: _ClusterNode, name: str, text: str | None) -> bool:
        """Store a Node object, or its deletion; return whether the topologies have changed."""
        info, ready = None, False
        self.problems.pop(name, None)
        try:
            if text is not None:
                obj: Json = msgspec.json.decode(text)
                info, ready = with_name_label(read_node_info(obj), HOSTNAME), _is_ready(obj)
        except FieldError as error:
            self.problems[name] = (f"Node {name}: {error}",)
        before, node.info = node.info, info
        if _structure(before) == _structure(info) and node.ready == ready:
            return False
        node.ready = ready
        if info is not None and node.row < 0:
            node.row = self._free_rows.pop()
        if node.row >= 0:
            self._ready[node.row] = ready
        return True

    def _set_report(self, node: _ClusterNode, name: str, text: str | None) -> None:
        node.reported = node.texts = None
        self.problems.pop(f"report/{name}", None)
        if text is None:
            return
        report = read_nrt(msgspec.json.decode(text), self._kinds)
        node.reported, node.texts = report.state, report.holdings
        if report.problems:
            self.problems[f"report/{name}"] = report.problems

    def _write(self, node: _ClusterNode) -> None:
        """Write the parts of a node that differ from its row into the row."""
        if node.row < 0:
            return
        info = None if node.info is None else node.info._replace(requested=node.usage)
        if self._table.infos[node.row] != info:
            self._table.set(node.row, info)
        report = self._report(node)
        if self._kubelet_states.last_report(node.row) != report:
            self._kubelet_states.report(node.row, report)
        if info is None:
            self._free_rows.append(node.row)
            node.row = -1

    def _report(self, node: _ClusterNode) -> ReportedNode:
        if node.info is None or node.reported is None:
            return NO_REPORT
        state = with_node_facts(node.reported, kubelet_facts(node.info), self._kinds)
        return reported_node(state, node.texts, node.queue_pods)

    # --- rows

    def _row(self, name: str) -> int:
        node = self._nodes.get(name)
        return -1 if node is None else node.row

    def _reserve_rows(self, count: int) -> bool:
        """Ensure that at least `count` rows are free; return whether larger arrays replaced the current ones."""
        missing, rows = count - len(self._free_rows), len(self._table)
        if missing <= 0:
            return False
        added = missing + max(rows // 4, _MIN_SPARE_ROWS)
        self._table = NodeInfoTable([*self._table.infos, *[None] * added])
        before, self._kubelet_states = (
            self._kubelet_states,
            KubeletStates([None] * (rows + added), allow_unknown=self._allow_unknown),
        )
        for row in range(rows):
            if before.has_report[row]:
                self._kubelet_states.report(row, before.last_report(row))
        self._ready += [False] * added
        self._free_rows = [*range(rows + added - 1, rows - 1, -1), *self._free_rows]
        return True


def _structure(info: NodeInfo | None) -> NodeInfo | None:
    """Return the part of a node that the topologies depend on."""
    return None if info is None else info._replace(release=None, device_capacity=())


def _is_ready(node: Json) -> bool:
    """Return whether the node's condition Ready is True (pkg/util/tas/tas.go IsNodeStatusConditionTrue)."""
    conditions = objects_in(object_in(node, "status", ""), "conditions", "status.")
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)


def _resource(usage: Mapping[str, int], pods: int) -> Resource:
    scalar_resources = {name: size for name, size in usage.items() if name not in {CPU, MEMORY, EPHEMERAL_STORAGE}}
    return Resource(
        usage.get(CPU, 0),
        usage.get(MEMORY, 0),
        pods,
        usage.get(EPHEMERAL_STORAGE, 0),
        tuple(sorted(scalar_resources.items())),
    )
