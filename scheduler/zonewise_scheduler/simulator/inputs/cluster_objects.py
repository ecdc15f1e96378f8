"""Objects of a cluster: queues and flavors of kueue.x-k8s.io, Workloads, batch/v1 Jobs, nodes and their reports.

A Job comes at the time of its creation, after the first one, or so many seconds after the begin as the annotation
zonewise.dev/simulated-submit-seconds says. How long it runs once all its pods are ready, in seconds, is told by the
annotation zonewise.dev/simulated-run-seconds, else by the start and the completion in its status, and else it is its
declared limit. It is queued whatever its state is.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from zonewise_common.k8s.fields import FieldReader, open_object
from zonewise_scheduler.quota.api.queue_reader import (
    read_cluster_queue,
    read_cohort,
    read_local_queue,
    read_resource_flavor,
    read_workload_priority_class,
)
from zonewise_scheduler.quota.api.queue_types import LocalQueue, ResourceFlavor
from zonewise_scheduler.simulator.inputs.job_objects import object_label, read_submitted
from zonewise_scheduler.simulator.inputs.node_fleet import build_queues, with_unlimited_pods
from zonewise_scheduler.simulator.inputs.node_objects import fleet_from_reports
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue, Cohort
    from zonewise_scheduler.quota.api.workload_types import WorkloadPriorityClass, Workload
    from zonewise_scheduler.simulator.inputs.documents import Document, Json
    from zonewise_scheduler.simulator.inputs.job_objects import SubmittedJob
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet

T = TypeVar("T")

_NAME = "objects"
_JOBS = {"Job", "Workload"}
_NODES = {"Node", "NodeResourceTopology"}
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
}
"""The API group of each kind; others have kinds of the same names."""
_VERSIONS = ("v1alpha1", "v1beta1", "v1beta2")
"""Of Kueue's: Cohorts and Topologies were v1alpha1 first; what they had beyond the fields of later ones is told."""


def is_object(content: Mapping[str, object]) -> bool:
    """Tell whether this is an object of an API."""
    return "apiVersion" in content and "kind" in content


def has_nodes(documents: Iterable[Document]) -> bool:
    """Tell whether any is a node or its report."""
    return any(one.kind in _NODES for one in documents)


def build_fleet_from_objects(documents: Sequence[Document]) -> Fleet:
    """Return the nodes among objects."""
    return fleet_from_reports(_of(documents, "NodeResourceTopology"), _of(documents, "Node"))


def read_objects(documents: Sequence[Document], where: str, fleet: Fleet | None) -> Scenario:
    """Return the jobs among objects, on the queues and nodes among them or else on a fleet.

    What is wrong with an object is told. Raises InputError where no job is left, or there is neither queue nor node.
    """
    problems: list[str] = []
    documents = _of_use(documents, problems)
    if fleet is None and has_nodes(documents):
        fleet = build_fleet_from_objects(documents)
    problems += () if fleet is None else fleet.problems
    cluster = _cluster(documents, problems)
    classes = _read(_of(documents, "WorkloadPriorityClass"), read_workload_priority_class, problems)
    classes += _read(_of(documents, "PriorityClass"), _read_pod_priority, problems)
    jobs = [one for one in documents if one.kind in _JOBS]
    submitted = read_submitted(jobs, {one.name: one.value for one in classes}, problems)
    if not submitted:
        raise InputError(where, "; ".join(["no Job or Workload that could be read", *problems]))
    cluster = _completed(cluster, fleet, [one.workload for one in submitted], where, problems)
    arrivals = [found for one in submitted if (found := _queued(one, cluster, problems)) is not None]
    if not arrivals:
        raise InputError(where, "; ".join(problems))
    return Scenario(
        _NAME,
        sorted(arrivals, key=lambda one: one.workload.created_at),
        cluster.queues,
        cluster.cohorts,
        cluster.flavors,
        cluster.topologies,
        None if fleet is None else fleet.nodes,
        {} if fleet is None else fleet.states,
        problems=tuple(problems),
        local_queues=_locals(cluster, arrivals),
    )


class _Cluster(NamedTuple):
    """What of a cluster is among the objects."""

    queues: tuple[ClusterQueue, ...]
    cohorts: tuple[Cohort, ...]
    flavors: tuple[ResourceFlavor, ...]
    topologies: Mapping[str, tuple[str, ...]]
    locals: Mapping[str, LocalQueue]


def _cluster(documents: Sequence[Document], problems: list[str]) -> _Cluster:
    queues = _read(_of(documents, "ClusterQueue"), read_cluster_queue, problems)
    cohorts = _read(_of(documents, "Cohort"), read_cohort, problems)
    flavors = _read(_of(documents, "ResourceFlavor"), read_resource_flavor, problems)
    topologies = _read(_of(documents, "Topology"), _read_topology, problems)
    local = _read(_of(documents, "LocalQueue"), read_local_queue, problems)
    return _Cluster(
        tuple({one.name: one for one in queues if one.name}.values()),
        tuple({one.name: one for one in cohorts if one.name}.values()),
        tuple({one.name: one for one in flavors if one.name}.values()),
        {name: levels for name, levels in topologies if levels},
        {one.key: one for one in local},
    )


def _completed(
    cluster: _Cluster, fleet: Fleet | None, workloads: Sequence[Workload], where: str, problems: list[str]
) -> _Cluster:
    """Return a cluster with queues and flavors: those of the fleet where there are none among the objects."""
    if not cluster.queues:
        if fleet is None:
            raise InputError(where, "neither ClusterQueues nor nodes: there is nothing to run jobs on; see --nodes")
        return _on_fleet(cluster, fleet, workloads)
    known = {one.name: one for one in (*(fleet.flavors if fleet is not None else ()), *cluster.flavors)}
    wanted_flavors = dict.fromkeys(
        flavor
        for one in (*cluster.queues, *cluster.cohorts)
        for own in one.resource_groups
        for flavor in own.flavor_names
    )
    for name in wanted_flavors:
        if name not in known:
            problems.append(f"{where}: ResourceFlavor {name}: there is none, and it is taken for one of any nodes")
            known[name] = ResourceFlavor(name)
    topologies = dict(cluster.topologies) if fleet is None else {**fleet.topologies, **cluster.topologies}
    if fleet is not None and not any(known[name].topology_name in topologies for name in wanted_flavors):
        problems.append(f"{where}: no ResourceFlavor has a Topology that is there: nodes do not count, quotas alone do")
    return cluster._replace(flavors=tuple(known.values()), topologies=topologies)


def _on_fleet(cluster: _Cluster, fleet: Fleet, workloads: Sequence[Workload]) -> _Cluster:
    """Return a cluster with queues for all nodes, those that jobs name.

    Where pods request nothing, pods have a quota too: what has no quota at all is given no flavor, and so no place.
    """
    wanted = (
        cluster.locals[one.local_queue_key].cluster_queue if one.local_queue_key in cluster.locals else one.queue_name
        for one in workloads
    )
    queues = build_queues(fleet, filter(None, wanted)).queues
    if not all(any(pods.requests.values()) for one in workloads for pods in one.pod_sets):
        queues = tuple(map(with_unlimited_pods, queues))
    return cluster._replace(queues=queues, flavors=fleet.flavors, topologies=fleet.topologies)


def _queued(one: SubmittedJob, cluster: _Cluster, problems: list[str]) -> Arrival | None:
    """Return a job with its ClusterQueue: by its LocalQueue, else one of its queue's name, else the only one."""
    local = cluster.locals.get(one.workload.local_queue_key)
    name = one.workload.queue_name if local is None else local.cluster_queue
    names = [queue.name for queue in cluster.queues]
    if not name and len(names) == 1:
        name = names[0]
    if name in names:
        return Arrival(one.workload, name, one.run_time, one.kind)
    problems.append(f"{one.label}: there is no queue {name!r}" if name else f"{one.label}: it names no queue")
    return None


def _locals(cluster: _Cluster, arrivals: Iterable[Arrival]) -> tuple[LocalQueue, ...]:
    """Return the LocalQueues, with those that jobs name and that are not described."""
    named = ((one.workload, one.queue) for one in arrivals if one.workload.queue_name)
    made = {one.local_queue_key: LocalQueue(one.namespace, one.queue_name, queue) for one, queue in named}
    return tuple({**made, **cluster.locals}.values())


def _read(
    documents: Iterable[Document], read: Callable[[Json], tuple[T, tuple[str, ...]]], problems: list[str]
) -> list[T]:
    found: list[T] = []
    for one in documents:
        value, own = read(one.content)
        problems += [f"{object_label(one)}: {problem}" for problem in own]
        found.append(value)
    return found


def _read_topology(given: Json) -> tuple[tuple[str, tuple[str, ...]], tuple[str, ...]]:
    problems: list[str] = []
    _, name, spec = open_object(given, problems)
    levels = tuple(one.text("nodeLabel") for one in spec.children("levels"))
    if not levels or not all(levels):
        spec.report("levels", "not labels of nodes")
        return (name, ()), tuple(problems)
    return (name, levels), tuple(problems)


def _read_pod_priority(given: Json) -> tuple[WorkloadPriorityClass, tuple[str, ...]]:
    """Return a PriorityClass of pods, which has fields that one of Workloads has not."""
    return read_workload_priority_class({name: given[name] for name in ("metadata", "value") if name in given})


def _of(documents: Iterable[Document], kind: str) -> list[Document]:
    return [one for one in documents if one.kind == kind]


def _of_use(documents: Iterable[Document], problems: list[str]) -> list[Document]:
    """Return the objects that are of use here, and tell of the others."""
    found: list[Document] = []
    others: Counter[tuple[str, str, str]] = Counter()
    for one in documents:
        api = one.content.get("apiVersion")
        group, _, version = api.rpartition("/") if isinstance(api, str) else ("", "", "")
        if _GROUPS.get(one.kind) != group:
            others[one.where, one.kind, str(api)] += 1
            continue
        if group == _KUEUE and version not in _VERSIONS:
            problems.append(
                f"{object_label(one)}: apiVersion: not one of {', '.join(_VERSIONS)}, and read as the last: {api}"
            )
        found.append(one)
    problems += _twice(found)
    problems += (
        f"{where}: {count} of kind {kind:.80} ({api:.80}): of no use here"
        for (where, kind, api), count in others.items()
    )
    return found


def _twice(documents: Iterable[Document]) -> Iterator[str]:
    """Tell of objects that are there more than once; jobs and nodes are told where they are read."""
    seen: set[tuple[str, str]] = set()
    for one in documents:
        if one.kind not in _JOBS | _NODES:
            metadata = FieldReader(one.content, "", []).child("metadata")
            key = (one.kind, f"{metadata.text('namespace')}/{metadata.text('name')}")
            if key in seen:
                yield f"{object_label(one)}: there is one of that name already: the last is taken"
            seen.add(key)
