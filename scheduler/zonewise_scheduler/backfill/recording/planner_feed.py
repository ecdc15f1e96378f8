"""Feeds the planner with entries, JSON documents of API objects and names, so that runs can be recorded and replayed.

The live queue and a replay drive the planner only with entries, so the same entries give the same decisions.

    entry        fields                                           what happens
    configure    clusterQueues, cohorts, resourceFlavors,         queues and flavors are replaced
                 localQueues, topologies: objects by list;
                 namespaces: labels by name;
                 admissionChecks: objects; absent: any exists;
                 deviceClasses: names by extended resource
    namespaces   changes: labels by name, null if deleted         labels of namespaces are changed
    nodes        changes: see NodeFeed                            nodes are changed
    submit       workload: an object                              it is pending, or inadmissible
    update       workload: an object                              a known workload changes
    adopt        workload: an object with its admission           it runs under an earlier leader's decision
    withdraw     key                                              a pending workload is removed
    passed       key, at                                          its admission checks have passed
    confirm      key                                              its admission has been observed
    forget       key                                              its admission was not carried out
    evict        key, reason, at                                  it has stopped and is resubmitted
    finish       key                                              it has ended
    restore      checkpoint: see checkpoint.py; at                reservations and usage are those of an earlier leader
    pass         at, maxAdmissions                                a scheduling pass

Times are in seconds since 1970, on the controller's clock.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from zonewise_scheduler.backfill.recording.plan_document import plan_document
from zonewise_scheduler.backfill.scheduling.scheduling_pass import UNLIMITED_ADMISSIONS, schedule
from zonewise_scheduler.backfill.state import events
from zonewise_scheduler.backfill.state.checkpoint import restore_checkpoint
from zonewise_scheduler.backfill.state.planner_state import new_state
from zonewise_scheduler.backfill.state.queue_router import QueueConfiguration
from zonewise_scheduler.quota.api.admission_check_rules import with_admission_checks
from zonewise_scheduler.quota.api.queue_reader import (
    read_admission_check,
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_resource_flavor,
    read_topology,
)
from zonewise_scheduler.quota.api.workload_reader import read_workload
from zonewise_scheduler.quota.api.workload_types import Eviction
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.backfill.state.checkpoint import Checkpoint
    from zonewise_scheduler.backfill.state.planner_state import PlannerState
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.quota.api.configuration import QuotaSettings
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import SentPods, TopologySnapshot

Json = dict[str, Any]


class NodeFeed(Protocol):
    """The nodes of the planner. An entry's changes are plain JSON; their content depends on the implementation."""

    def apply(self, changes: Sequence[Json]) -> bool:
        """Apply changes of nodes; return whether placements() must be called, because a topology has other nodes now.

        Otherwise, the TopologySnapshots that placements() returned earlier already contain the changes.
        """
        ...

    def placements(
        self, flavors: Iterable[ResourceFlavor], topologies: Mapping[str, Sequence[str]]
    ) -> TopologySnapshot | None:
        """Return the empty topologies of flavors; None if no flavor has nodes. `topologies`: label keys by name."""
        ...


class InvalidWorkload(ValueError):
    """A Workload whose requests cannot be read; the message names the fields."""


class PlannerFeed:
    """A planner's state, which only entries change."""

    def __init__(
        self,
        policy: BackfillPolicy,
        settings: QuotaSettings,
        nodes: NodeFeed | None = None,
        record: Callable[[Json], object] | None = None,
    ) -> None:
        """Start without queues. `nodes`: None if only quotas decide.

        `record` is called with each entry before it is applied, and with {"plan": ...} after each pass.
        """
        self.state: PlannerState = new_state(Snapshot(()), policy, settings, ())
        self.state.assumed = set()
        self.problems: dict[str, tuple[str, ...]] = {}
        """Problems of each invalid queue, flavor or topology, by kind and name: "localQueues/namespace/name"."""
        self.applied = 0
        """Number of entries that were applied; passes do not count."""
        self._nodes = nodes
        self._record = record
        self._flavors: tuple[ResourceFlavor, ...] = ()
        self._topologies: dict[str, tuple[str, ...]] = {}
        self._handlers: dict[str, Callable[[Json], None]] = {
            "configure": self._configure,
            "namespaces": lambda entry: events.change_namespaces(self.state, entry["changes"]),
            "nodes": self._change_nodes,
            "submit": lambda entry: events.submit(self.state, self._workload(entry)),
            "update": lambda entry: events.update(self.state, self._workload(entry)),
            "adopt": lambda entry: events.adopt(self.state, self._workload(entry)),
            "withdraw": lambda entry: events.withdraw(self.state, entry["key"]),
            "passed": lambda entry: events.checks_passed(self.state, entry["key"], entry["at"]),
            "confirm": lambda entry: events.confirm(self.state, entry["key"]),
            "forget": lambda entry: events.forget(self.state, entry["key"]),
            "evict": lambda entry: events.evict(self.state, entry["key"], Eviction(entry["reason"], entry["at"])),
            "finish": lambda entry: events.finish(self.state, entry["key"]),
            "restore": lambda entry: restore_checkpoint(entry["checkpoint"], self.state, entry.get("at") or 0.0),
        }

    @property
    def nodes(self) -> NodeFeed | None:
        """The nodes; None if only quotas decide."""
        return self._nodes

    # --- entries

    def configure(
        self,
        objects: Mapping[str, Sequence[Json]],
        namespaces: Mapping[str, Mapping[str, str]],
        device_classes: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Replace queues, cohorts, flavors and topologies: objects by the entry's field names.

        `device_classes`: names of the DeviceClasses that provide extended resources, by resource.
        """
        self.apply({"entry": "configure", **objects, "namespaces": namespaces, "deviceClasses": dict(device_classes)})

    def change_namespaces(self, changes: Mapping[str, Mapping[str, str] | None]) -> None:
        """Replace the labels of namespaces, by name; None: the namespace was deleted."""
        self.apply({"entry": "namespaces", "changes": changes})

    def change_nodes(self, changes: Sequence[Json]) -> None:
        """Change nodes."""
        self.apply({"entry": "nodes", "changes": changes})

    def submit(self, workload: Json) -> None:
        """Add or replace a pending workload. Raises InvalidWorkload."""
        self.apply({"entry": "submit", "workload": workload})

    def update(self, workload: Json) -> None:
        """Replace the state of a known workload. Raises InvalidWorkload."""
        self.apply({"entry": "update", "workload": workload})

    def adopt(self, workload: Json) -> None:
        """Add a workload that runs under an earlier leader's decision. Raises InvalidWorkload, ValueError."""
        self.apply({"entry": "adopt", "workload": workload})

    def withdraw(self, key: str) -> None:
        """Remove a pending workload."""
        self.apply({"entry": "withdraw", "key": key})

    def checks_passed(self, key: str, at: float) -> None:
        """Record that a workload's admission checks have passed."""
        self.apply({"entry": "passed", "key": key, "at": at})

    def confirm(self, key: str) -> None:
        """Record that a workload's admission has been observed."""
        self.apply({"entry": "confirm", "key": key})

    def forget(self, key: str) -> None:
        """Resubmit a workload whose admission was not carried out."""
        self.apply({"entry": "forget", "key": key})

    def evict(self, key: str, reason: str, at: float) -> None:
        """Resubmit a workload that has stopped."""
        self.apply({"entry": "evict", "key": key, "reason": reason, "at": at})

    def finish(self, key: str) -> None:
        """Remove a running workload that has ended."""
        self.apply({"entry": "finish", "key": key})

    def restore(self, checkpoint: Checkpoint, at: float) -> None:
        """Replace reservations and usage with those of a checkpoint. Queues and workloads must already be known."""
        self.apply({"entry": "restore", "checkpoint": checkpoint, "at": at})

    def run_pass(self, at: float, max_admissions: int = UNLIMITED_ADMISSIONS) -> Plan:
        """Run a scheduling pass; return its plan."""
        if self._record is not None:
            self._record({"entry": "pass", "at": at, "maxAdmissions": max_admissions})
        plan = schedule(self.state, at, max_admissions)
        if self._record is not None:
            self._record({"plan": plan_document(plan)})
        return plan

    def predicted_admissions(self, key: str) -> Mapping[tuple[str, str], Sequence[str]]:
        """Return the predicted admissions of a running workload's pods (TopologySnapshot); {} if it is not running."""
        run = self.state.running.get(key)
        return {} if run is None else self.state.snapshot.tas_snapshot.predicted_admissions(run.workload)

    def admits_next(self, key: tuple[str, str], node: str, sent: Mapping[tuple[str, str], SentPods]) -> bool:
        """Return whether a kubelet will admit all pods of its node if one more is sent now (TopologySnapshot)."""
        return self.state.snapshot.tas_snapshot.admits_next(key, node, sent)

    def apply(self, entry: Json) -> None:
        """Apply any entry except a pass. Raises like the methods above, and ValueError for an unknown entry."""
        handler = self._handlers.get(entry["entry"])
        if handler is None:
            raise ValueError(f"not an entry of a planner: {entry['entry']!r:.80}")
        if self._record is not None:
            self._record(entry)
        self.applied += 1
        handler(entry)

    # --- what entries do

    def _configure(self, entry: Json) -> None:
        self.problems = {}
        cluster_queues = self._read(entry, "clusterQueues", read_cluster_queue)
        if entry.get("admissionChecks") is not None:
            checks = {check.name: check for check in self._read(entry, "admissionChecks", read_admission_check)}
            cluster_queues = [with_admission_checks(queue, checks) for queue in cluster_queues]
        cohorts = self._read(entry, "cohorts", read_cohort)
        self._flavors = tuple(self._read(entry, "resourceFlavors", read_resource_flavor))
        topologies = self._read(entry, "topologies", read_topology)
        old_topologies = self._topologies
        self._topologies = {topology.name: topology.levels for topology in topologies if topology.levels}
        local_queues = self._read(entry, "localQueues", read_local_queue)
        configuration = QueueConfiguration(
            tuple(cluster_queues),
            tuple(cohorts),
            self._flavors,
            tuple(local_queues),
            entry["namespaces"],
            entry.get("deviceClasses") or {},
        )
        if self._topologies != old_topologies or not events.change_local_queues(self.state, configuration):
            events.reconfigure(self.state, configuration, self._placements())

    def _change_nodes(self, entry: Json) -> None:
        if self._nodes is None:
            return
        if self._nodes.apply(entry["changes"]):
            events.reconfigure(self.state, self.state.configuration, self._placements())
        else:
            events.nodes_changed(self.state)

    def _placements(self) -> TopologySnapshot | None:
        return None if self._nodes is None else self._nodes.placements(self._flavors, self._topologies)

    def _read(self, entry: Json, field: str, read: Callable[[Json], tuple[Any, tuple[str, ...]]]) -> list[Any]:
        values: list[Any] = []
        for obj in entry[field]:
            value, problems = read(obj)
            if problems:
                self.problems[f"{field}/{_object_name(obj)}"] = problems
            values.append(value)
        return values

    def _workload(self, entry: Json) -> Workload:
        result = read_workload(entry["workload"], resources=self.state.settings.resources)
        if result.workload is None:
            raise InvalidWorkload("; ".join(result.problems))
        return result.workload


def _object_name(obj: Json) -> str:
    """Return the name of an object, prefixed with its namespace if it has one."""
    metadata = obj.get("metadata", {})
    return "/".join(part for part in (metadata.get("namespace", ""), metadata.get("name", "")) if part)
