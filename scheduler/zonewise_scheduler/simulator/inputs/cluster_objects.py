"""Reads objects of a cluster: queues and flavors of kueue.x-k8s.io, Workloads, batch/v1 Jobs, nodes and their reports.

A Job is submitted at its creation, relative to the first one, or at the time of the annotation
zonewise.dev/simulated-submit-seconds. Its run time counts from when all its pods are ready. It is that of the
annotation zonewise.dev/simulated-run-seconds, else from start to completion or failure in its status, and else its
walltime. Its state does not matter.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.job_priority import PriorityClasses
from zonewise_scheduler.quota.api.queue_reader import (
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_resource_flavor,
    read_topology,
    read_workload_priority_class,
)
from zonewise_scheduler.quota.api.queue_types import LocalQueue, ResourceFlavor
from zonewise_scheduler.simulator.inputs.added_requests import GROUPS as ADDED_REQUESTS
from zonewise_scheduler.simulator.inputs.added_requests import read_devices, read_pod_defaults
from zonewise_scheduler.simulator.inputs.job_objects import object_label, read_submitted
from zonewise_scheduler.simulator.inputs.node_fleet import build_queues, with_unlimited_pods
from zonewise_scheduler.simulator.inputs.node_objects import fleet_from_reports
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort
    from zonewise_scheduler.quota.api.workload_types import Workload, WorkloadPriorityClass
    from zonewise_scheduler.simulator.inputs.documents import Document, Json
    from zonewise_scheduler.simulator.inputs.job_objects import SubmittedJob
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

T = TypeVar("T")

_NAME = "objects"
_JOB_KINDS = {"Job", "Workload"}
_NODE_KINDS = {"Node", "NodeResourceTopology"}
_KUEUE = "kueue.x-k8s.io"
_GROUPS = {
    "Job": "batch",
    "Node": "",
    "NodeResourceTopology": "topology.node.k8s.io",
    "PriorityClass": "scheduling.k8s.io",
    **dict.fromkeys(
        ("ClusterQueue", "Cohort", "LocalQueue", "ResourceFlavor", "Topology", "Workload", "WorkloadPriorityClass"),
        _KUEUE,
    ),
    **ADDED_REQUESTS,
}
"""The API group of each kind, since other groups have kinds with the same names."""
_VERSIONS = ("v1alpha1", "v1beta1", "v1beta2")
"""Versions of Kueue's API: Cohorts and Topologies were first v1alpha1; fields that later versions lack are reported as
problems."""


def is_object(content: Mapping[str, object]) -> bool:
    """Return whether this is a Kubernetes API object."""
    return "apiVersion" in content and "kind" in content


def has_nodes(documents: Iterable[Document]) -> bool:
    """Return whether any document is a node or a report."""
    return any(document.kind in _NODE_KINDS for document in documents)


def build_fleet_from_objects(documents: Sequence[Document]) -> Fleet:
    """Return the nodes among objects, with their devices."""
    problems: list[str] = []
    devices = read_devices(documents, problems)
    fleet = fleet_from_reports(_of_kind(documents, "NodeResourceTopology"), _of_kind(documents, "Node"), devices)
    return fleet._replace(problems=(*problems, *fleet.problems))


def read_objects(documents: Sequence[Document], where: str, fleet: Fleet | None) -> Scenario:
    """Return the jobs among objects, to run on the queues and nodes among them, or otherwise on a fleet.

    Invalid fields are reported as problems. Raises InputError if no job is left, or if there are neither queues nor
    nodes.
    """
    problems: list[str] = []
    documents = _select(documents, problems)
    if fleet is None and has_nodes(documents):
        fleet = build_fleet_from_objects(documents)
    problems += () if fleet is None else fleet.problems
    cluster = _cluster(documents, problems)
    jobs = [entry for entry in documents if entry.kind in _JOB_KINDS]
    places_devices = fleet is not None and fleet.has_devices
    defaults = read_pod_defaults(documents, problems, places_devices=places_devices)
    submitted = read_submitted(jobs, _priority_classes(documents, problems), defaults, problems)
    if not submitted:
        raise InputError(where, "; ".join(["no Job or Workload that could be read", *problems]))
    cluster = _with_queues_and_flavors(cluster, fleet, [entry.workload for entry in submitted], where, problems)
    arrivals = [arrival for entry in submitted if (arrival := _arrival(entry, cluster, problems)) is not None]
    if not arrivals:
        raise InputError(where, "; ".join(problems))
    return Scenario(
        _NAME,
        sorted(arrivals, key=lambda entry: entry.workload.created_at),
        cluster.queues,
        cluster.cohorts,
        cluster.flavors,
        cluster.topologies,
        None if fleet is None else fleet.nodes,
        {} if fleet is None else fleet.states,
        problems=tuple(problems),
        local_queues=_local_queues(cluster, arrivals),
    )


class _Cluster(NamedTuple):
    """The cluster-wide objects."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...]
    flavors: tuple[ResourceFlavor, ...]
    topologies: Mapping[str, tuple[str, ...]]
    locals: Mapping[str, LocalQueue]


def _cluster(documents: Sequence[Document], problems: list[str]) -> _Cluster:
    queues = _read(_of_kind(documents, "ClusterQueue"), read_cluster_queue, problems)
    cohorts = _read(_of_kind(documents, "Cohort"), read_cohort, problems)
    flavors = _read(_of_kind(documents, "ResourceFlavor"), read_resource_flavor, problems)
    topologies = _read(_of_kind(documents, "Topology"), read_topology, problems)
    local_queues = _read(_of_kind(documents, "LocalQueue"), read_local_queue, problems)
    return _Cluster(
        tuple({entry.name: entry for entry in queues if entry.name}.values()),
        tuple({entry.name: entry for entry in cohorts if entry.name}.values()),
        tuple({entry.name: entry for entry in flavors if entry.name}.values()),
        {topology.name: topology.levels for topology in topologies if topology.levels},
        {entry.key: entry for entry in local_queues},
    )


def _with_queues_and_flavors(
    cluster: _Cluster, fleet: Fleet | None, workloads: Sequence[Workload], where: str, problems: list[str]
) -> _Cluster:
    """Return a cluster with queues and flavors, taken from the fleet if the objects have none."""
    if not cluster.queues:
        if fleet is None:
            raise InputError(where, "neither ClusterQueues nor nodes: there is nothing to run jobs on; see --nodes")
        return _on_fleet(cluster, fleet, workloads)
    flavors_by_name = {
        holder.name: holder for holder in (*(fleet.flavors if fleet is not None else ()), *cluster.flavors)
    }
    flavor_names = dict.fromkeys(
        flavor
        for holder in (*cluster.queues, *cluster.cohorts)
        for group in holder.resource_groups
        for flavor in group.flavor_names
    )
    for name in flavor_names:
        if name not in flavors_by_name:
            problems.append(f"{where}: ResourceFlavor {name}: does not exist, and is treated as a flavor for any node")
            flavors_by_name[name] = ResourceFlavor(name)
    topologies = dict(cluster.topologies) if fleet is None else {**fleet.topologies, **cluster.topologies}
    if fleet is not None and not any(flavors_by_name[name].topology_name in topologies for name in flavor_names):
        problems.append(
            f"{where}: no ResourceFlavor refers to an existing Topology: only quotas count, and nodes do not"
        )
    return cluster._replace(flavors=tuple(flavors_by_name.values()), topologies=topologies)


def _on_fleet(cluster: _Cluster, fleet: Fleet, workloads: Sequence[Workload]) -> _Cluster:
    """Return a cluster with one queue on all nodes for each queue name in the jobs.

    If some pods request nothing, the queues get a quota of pods too. A workload without any quota has neither flavor
    nor placement.
    """
    queue_names = (
        cluster.locals[workload.local_queue_key].cluster_queue
        if workload.local_queue_key in cluster.locals
        else workload.queue_name
        for workload in workloads
    )
    queues = build_queues(fleet, filter(None, queue_names)).queues
    if not all(any(pod_set.requests.values()) for workload in workloads for pod_set in workload.pod_sets):
        queues = tuple(map(with_unlimited_pods, queues))
    return cluster._replace(queues=queues, flavors=fleet.flavors, topologies=fleet.topologies)


def _arrival(job: SubmittedJob, cluster: _Cluster, problems: list[str]) -> Arrival | None:
    """Return a job with its ClusterQueue: that of its LocalQueue, the one with its queue's name, or the only one."""
    local_queue = cluster.locals.get(job.workload.local_queue_key)
    name = job.workload.queue_name if local_queue is None else local_queue.cluster_queue
    names = [queue.name for queue in cluster.queues]
    if not name and len(names) == 1:
        name = names[0]
    if name in names:
        return Arrival(job.workload, name, job.run_time, job.kind)
    problems.append(f"{job.label}: there is no queue {name!r}" if name else f"{job.label}: it names no queue")
    return None


def _local_queues(cluster: _Cluster, arrivals: Iterable[Arrival]) -> tuple[LocalQueue, ...]:
    """Return the LocalQueues, including those that jobs name but no object describes."""
    queued = ((entry.workload, entry.queue) for entry in arrivals if entry.workload.queue_name)
    implied = {entry.local_queue_key: LocalQueue(entry.namespace, entry.queue_name, queue) for entry, queue in queued}
    return tuple({**implied, **cluster.locals}.values())


def _read(
    documents: Iterable[Document], read: Callable[[Json], tuple[T, tuple[str, ...]]], problems: list[str]
) -> list[T]:
    values: list[T] = []
    for document in documents:
        value, own_problems = read(document.content)
        problems += [f"{object_label(document)}: {problem}" for problem in own_problems]
        values.append(value)
    return values


def _priority_classes(documents: Sequence[Document], problems: list[str]) -> PriorityClasses:
    """Return the priority classes; of several global defaults that of the smallest value counts, as on a cluster."""
    workload_classes = _read(_of_kind(documents, "WorkloadPriorityClass"), read_workload_priority_class, problems)
    pod_documents = _of_kind(documents, "PriorityClass")
    pod_classes = _read(pod_documents, _read_pod_priority, problems)
    defaults = [
        entry
        for document, entry in zip(pod_documents, pod_classes, strict=True)
        if document.content.get("globalDefault") is True
    ]
    return PriorityClasses(
        {entry.name: entry.value for entry in workload_classes},
        {entry.name: entry.value for entry in pod_classes},
        min(defaults, key=lambda entry: entry.value).name if defaults else "",
    )


def _read_pod_priority(content: Json) -> tuple[WorkloadPriorityClass, tuple[str, ...]]:
    """Read a PriorityClass of pods without the fields that a WorkloadPriorityClass lacks."""
    return read_workload_priority_class({name: content[name] for name in ("metadata", "value") if name in content})


def _of_kind(documents: Iterable[Document], kind: str) -> list[Document]:
    return [document for document in documents if document.kind == kind]


def _select(documents: Iterable[Document], problems: list[str]) -> list[Document]:
    """Return the objects of known kinds; report the others as problems."""
    useful: list[Document] = []
    ignored: Counter[tuple[str, str, str]] = Counter()
    for document in documents:
        api = document.content.get("apiVersion")
        group, _, version = api.rpartition("/") if isinstance(api, str) else ("", "", "")
        if _GROUPS.get(document.kind) != group or (document.kind in ADDED_REQUESTS and version != "v1"):
            ignored[document.where, document.kind, str(api)] += 1
            continue
        if group == _KUEUE and version not in _VERSIONS:
            problems.append(
                f"{object_label(document)}: apiVersion: not one of {', '.join(_VERSIONS)}, and read as the last: {api}"
            )
        useful.append(document)
    problems += _duplicates(useful)
    problems += (
        f"{where}: {count} of kind {kind:.80} ({api:.80}): ignored" for (where, kind, api), count in ignored.items()
    )
    return useful


def _duplicates(documents: Iterable[Document]) -> Iterator[str]:
    """Yield a problem for each duplicate object; duplicate jobs and nodes are reported where they are read."""
    keys: set[tuple[str, str]] = set()
    for document in documents:
        if document.kind not in _JOB_KINDS | _NODE_KINDS:
            metadata = FieldReader(document.content, "", []).child("metadata")
            key = (document.kind, f"{metadata.text('namespace')}/{metadata.text('name')}")
            if key in keys:
                yield f"{object_label(document)}: duplicate name: the last one counts"
            keys.add(key)
