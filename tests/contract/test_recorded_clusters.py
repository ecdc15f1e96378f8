"""Random clusters as manifests with the decisions of Kueue's scheduler: the planner's cycle makes the same decisions.

Each line of a file in tests/fixtures/quota is a case: queues, cohorts, flavors, topologies, nodes, and three to eight
steps. A step has events, a cycle of pkg/scheduler/scheduler.go `schedule` at commit ff69552e79ad, and ends of
workloads. The project's own readers read all objects, so the contract covers them too.

- trees.jsonl.gz: deep trees of cohorts, changed quotas, partial admission, PreemptionOverBorrowing, admission checks.
- topologies.jsonl.gz: topologies with slices, groups, taints, selectors, failed nodes, second passes and preemption.
- changes.jsonl.gz: reclaimable pods, changes of nodes and of pods outside the queues, resource transformations.

Three outcomes of Kueue are not compared. A second pass sets no condition, so its reason is not visible. Kueue gives no
reason for some placements that fail even in an empty cluster. If several pod sets lack a placement, Kueue names any.
"""

from __future__ import annotations

import functools
import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable
from zonewise_scheduler.nodes.node.node_info import read_node_info, read_pod_info
from zonewise_scheduler.quota.api.admission_check_rules import with_admission_checks
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_reader import (
    read_admission_check,
    read_cluster_queue,
    read_cohort,
    read_resource_flavor,
    read_topology,
)
from zonewise_scheduler.quota.api.resource_settings import ResourceSettings, parse_resource_settings
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.cycle.entry import Head
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.flavorassigner.tas_flavorassigner import needs_second_pass
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads
from zonewise_scheduler.tas.flavor_topology import build_flavor_topology
from zonewise_scheduler.tas.tas_snapshot import TASSnapshot
from zonewise_scheduler.tas.types import TASFeatureGates

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import PodSetAdmission, Workload
    from zonewise_scheduler.quota.cycle.entry import Decision

FIXTURES = Path(__file__).parent.parent / "fixtures/quota"
REQUEUE_REASONS = {"NoCandidates": "PreemptionNoCandidates"}
"""Kueue's reason by ours."""
FINISHED = {"Succeeded", "Failed"}
PARTS = 3
"""Number of parts of each file, which workers test in parallel."""


@functools.cache
def recorded_cases(file: str) -> list[Json]:
    with gzip.open(FIXTURES / file, "rt") as lines:
        return [json.loads(line) for line in lines]


class Cluster:
    """The objects of a case, and the planner's decisions about them."""

    def __init__(self, case: Json) -> None:
        self._case = case
        self._nodes, self._pods = case["nodes"], case["pods"]
        gates = case["gates"]
        self._gates = TASFeatureGates(
            gates.get("TASProfileMixed", True),
            gates.get("TASBalancedPlacement", False),
            gates.get("TASRespectNodeAffinityPreferred", False),
        )
        self._settings = QuotaSettings(
            case["fair"],
            tuple(case.get("strategies") or ()),
            resources=parse_resource_settings(case.get("resources", {})),
            recompute_topology_assignment=gates.get("TASRecomputeAssignmentWithinSchedulingCycle", True),
        )
        self._checks = {name_of(check): valid(read_admission_check(check)) for check in case["checks"]}
        self._queues = {name_of(queue): self._read_queue(queue) for queue in case["queues"]}
        self._queue_names = {name_of(queue): queue["spec"]["clusterQueue"] for queue in case["localQueues"]}
        self._pending = {name: PendingWorkloads(queue) for name, queue in self._queues.items()}
        self._cluster_queues: dict[str, str] = {}
        """The ClusterQueue of each workload."""
        self._failed_nodes: set[str] = set()
        self._running: dict[str, Workload] = {}
        self._snapshot = self._build()

    def cycle(self, number: int, step: Json) -> list[Decision]:
        """Apply the events before a cycle and run it; return its decisions in their order."""
        self._apply_events(step)
        second_pass = [
            Head(workload, workload.admission.cluster_queue)
            for workload in self._running.values()
            if workload.admission is not None
            and not workload.admission.pending_checks
            and needs_second_pass(workload, self._snapshot.tas_snapshot)
        ]
        heads = [*second_pass, *pop_heads(self._pending.values(), self._snapshot, None, number)]
        decisions = run_cycle(self._snapshot, heads, self._settings, 60.0 * number, number)
        for decision in decisions:
            if decision.status == "admitted":
                self._running[decision.workload.name] = decision.workload
            elif decision.head.workload.admission is None:
                self._pending[decision.head.cluster_queue].requeue(decision)
        return decisions

    def in_order(self, decisions: list[Json]) -> list[Json]:
        """Return decisions in the order that Kueue defines: under fair sharing, only that within each tree of cohorts.

        The order of the trees is then that of a Go map (fair_sharing_iterator.go `pop`).
        """
        return sorted(decisions, key=self._tree_of) if self._settings.fair_sharing else decisions

    def _tree_of(self, decision: Json) -> str:
        queue = self._cluster_queues[decision["name"]]
        node = self._snapshot.cluster_queues.get(queue)
        return queue if node is None or node.root is None else f"/{node.root.name}"

    def pending_names(self) -> tuple[Json, Json]:
        """Return the active and the inadmissible workloads of each queue that has any."""
        active = {name: names_of(queue.active) for name, queue in self._pending.items() if queue.active}
        inadmissible = {
            name: names_of(queue.inadmissible) for name, queue in self._pending.items() if queue.inadmissible
        }
        return active, inadmissible

    def finish(self, number: int, step: Json, decisions: list[Decision]) -> list[str]:
        """Evict the victims, end workloads and change quotas; return the names of the ended workloads."""
        evicted = {decision.workload.name for decision in decisions if decision.status == "evicted"}
        for decision in decisions:
            for target in decision.preemption_targets if decision.status == "preempting" else ():
                eviction = target.workload.eviction or Eviction("Preempted", 60.0 * number)
                self._running[target.workload.name] = replace(target.workload, eviction=eviction)
        ended = sorted(
            name
            for name, workload in self._running.items()
            if name in evicted or name in step["end"] or (workload.eviction is not None and step["victims"] == "end")
        )
        for name in ended:
            del self._running[name]
        self._snapshot = self._build()
        for pending in self._pending.values() if ended else ():
            pending.queue_inadmissible_workloads()
        if "quota" in step:
            self._change_quotas(step["quota"])
        return ended

    def _change_quotas(self, manifests: list[Json]) -> None:
        """Change queues, and submit their workloads again (backfill/state/events.py reconfigure)."""
        self._queues |= {name_of(queue): self._read_queue(queue) for queue in manifests}
        self._snapshot = self._build()
        for name, old in self._pending.items():
            self._pending[name] = PendingWorkloads(self._queues[name])
            for workload in old.workloads():
                self._pending[name].push_or_update(workload)

    def _apply_events(self, step: Json) -> None:
        self._change_nodes(step)
        self._reclaim(step.get("reclaim") or {})
        for workload in (read_valid_workload(manifest, self._settings.resources) for manifest in step["arrive"]):
            self._cluster_queues[workload.name] = self._queue_names[workload.queue_name]
            self._pending[self._cluster_queues[workload.name]].push_or_update(workload)
        node = step.get("failNode", "")
        self._failed_nodes.add(node)
        for name, workload in self._running.items():
            if node and workload.is_admitted and not workload.unhealthy_nodes and node in nodes_of(workload):
                self._running[name] = replace(workload, unhealthy_nodes=(node,))
            if name in step.get("ready", ()) and workload.admission is not None and not workload.is_admitted:
                self._running[name] = replace(workload, admission=workload.admission._replace(pending_checks=()))
        self._snapshot = self._build()

    def _change_nodes(self, step: Json) -> None:
        """Change nodes, and add pods that do not belong to a queue."""
        changed = {name_of(node): node for node in step.get("nodes", ())}
        self._failed_nodes -= changed.keys()
        self._nodes = [changed.get(name_of(node), node) for node in self._nodes]
        self._pods = [*self._pods, *step.get("pods", ())]

    def _reclaim(self, reclaimable: Json) -> None:
        """Set the number of pods of workloads that are no longer needed."""
        pods = {name: {entry["name"]: entry["count"] for entry in entries} for name, entries in reclaimable.items()}
        for name in pods.keys() & self._running.keys():
            self._running[name] = replace(self._running[name], reclaimable_pods=pods[name])
        for pending in self._pending.values() if pods else ():
            for workload in list(pending.workloads()):
                if workload.name in pods:
                    pending.push_or_update(replace(workload, reclaimable_pods=pods[workload.name]))
            pending.queue_inadmissible_workloads()

    def _read_queue(self, manifest: Json) -> ClusterQueue:
        return with_admission_checks(valid(read_cluster_queue(manifest)), self._checks)

    def _build(self) -> Snapshot:
        case = self._case
        nodes = read_nodes(self._nodes, self._pods)
        ready = np.array([is_ready(node) and name_of(node) not in self._failed_nodes for node in self._nodes], np.bool_)
        flavors = [valid(read_resource_flavor(flavor)) for flavor in case["flavors"]]
        levels = {name_of(topology): valid(read_topology(topology)).levels for topology in case["topologies"]}
        topologies = [
            build_flavor_topology(flavor, levels[flavor.topology_name], nodes, ready)
            for flavor in flavors
            if flavor.topology_name
        ]
        cohorts = [valid(read_cohort(cohort)) for cohort in case["cohorts"]]
        tas_snapshot = TASSnapshot(topologies, self._gates)
        return Snapshot(self._queues.values(), cohorts, flavors, self._running.values(), tas_snapshot)


# --- objects


def name_of(manifest: Json) -> str:
    return str(manifest["metadata"]["name"])


def valid(result: tuple[Any, tuple[str, ...]]) -> Any:
    """Return the value of a valid object."""
    value, problems = result
    assert not problems
    return value


def read_valid_workload(manifest: Json, resources: ResourceSettings) -> Workload:
    result = read_workload(manifest, resources=resources)
    assert result.workload is not None
    assert not result.problems
    return result.workload


def read_nodes(nodes: list[Json], pods: list[Json]) -> NodeInfoTable:
    """Return the nodes with the pods that do not belong to a queue."""
    pods_by_node: dict[str, list[Any]] = {}
    for pod in pods:
        if pod["status"]["phase"] not in FINISHED:
            pods_by_node.setdefault(pod["spec"]["nodeName"], []).append(read_pod_info(pod))
    return NodeInfoTable([read_node_info(node, pods_by_node.get(name_of(node), ())) for node in nodes])


def is_ready(node: Json) -> bool:
    return bool(node["status"]["conditions"][0]["status"] == "True")


def nodes_of(workload: Workload) -> set[str]:
    """Return the nodes of a running workload's pods."""
    return {
        domain.values[-1]
        for pod_set in workload.admitted_pod_sets.values()
        if pod_set.topology_assignment is not None
        for domain in pod_set.topology_assignment.domains
    }


def names_of(keys: Any) -> list[str]:
    return sorted(key.removeprefix("default/") for key in keys)


# --- decisions


def flat_decision(decision: Decision) -> Json:
    """Return a decision in the form of the recording."""
    flat: Json = {"name": decision.workload.name, "status": decision.status}
    if decision.status == "admitted":
        return {**flat, "podSets": list(map(flat_pod_set, decision.workload.admitted_pod_sets.values()))}
    if decision.status == "evicted":
        return flat
    flat["status"] = "skipped" if decision.status == "skipped" else ""
    if decision.status == "preempting":
        flat["victims"] = sorted([target.workload.name, target.reason] for target in decision.preemption_targets)
    if decision.head.workload.admission is None:
        flat["requeue"] = REQUEUE_REASONS.get(decision.requeue_reason, decision.requeue_reason)
        flat["reason"] = decision.reason
    return flat


def flat_pod_set(pod_set: PodSetAdmission) -> list[Any]:
    placement = pod_set.topology_assignment
    domains = None if placement is None else [[list(domain.values), domain.pods] for domain in placement.domains]
    usage = dict(pod_set.usage)
    return [pod_set.name, pod_set.pods, dict(pod_set.flavors), usage, pod_set.delayed_topology_request, domains]


def recorded_decision(recorded: Mapping[str, Any], decision: Decision) -> Json:
    """Return a recorded decision as it must be equal to flat_decision()."""
    flat: Json = {name: value for name, value in recorded.items() if name != "message"}
    if flat.get("reason") == "":
        flat["reason"] = decision.reason
    for pod_set in flat.get("podSets", ()):
        pod_set[3] = {name: resource_value(name, quantity) for name, quantity in pod_set[3].items()}
    return flat


def check_message(recorded: Mapping[str, Any], decision: Decision, at: str) -> None:
    """Check that a status of the decision says why the topology has no placement."""
    if "message" in recorded:
        assert decision.assignment is not None, at
        statuses = [status for pod_set in decision.assignment.pod_sets for status in pod_set.statuses]
        messages = [status.message for status in statuses if status.message.startswith('topology "')]
        assert any(message in recorded["message"] for message in messages), at


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("file", ["trees.jsonl.gz", "topologies.jsonl.gz", "changes.jsonl.gz"])
def test_decisions_equal_those_of_kueue(file: str, part: int) -> None:
    for index, case in list(enumerate(recorded_cases(file)))[part::PARTS]:
        cluster = Cluster(case)
        for number, (step, cycle) in enumerate(zip(case["steps"], case["cycles"], strict=True), start=1):
            at = f"case {index}, cycle {number}"
            decisions = cluster.cycle(number, step)
            by_name = {decision.workload.name: decision for decision in decisions}
            assert by_name.keys() == {recorded["name"] for recorded in cycle["decisions"]}, at
            expected = [recorded_decision(recorded, by_name[recorded["name"]]) for recorded in cycle["decisions"]]
            assert cluster.in_order(list(map(flat_decision, decisions))) == cluster.in_order(expected), at
            for recorded in cycle["decisions"]:
                check_message(recorded, by_name[recorded["name"]], at)
            assert cluster.pending_names() == (cycle["active"], cycle["inadmissible"]), at
            assert cluster.finish(number, step, decisions) == cycle["ended"], at
