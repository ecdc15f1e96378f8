"""Reads job files in JSON or YAML, which describe groups of jobs and their nodes.

    {
      "name": "a name", "description": "what for", "seed": 1,
      "fairSharing": false,
      "nodes": "100x64",                      or an object as in fleet_file.py; --nodes overrides it
      "queues": [{"name": "a", "share": 0.5, "cohort": "c", "strategy": "StrictFIFO", "preemption": {...},
        "advanceReservations": true}],      reserve starts before the begin times of jobs
      "jobs": [{
        "name": "job", "count": 1000,         names are job-0, job-1, ...; without a count, one job, "job"
        "queue": "a", "user": "u", "priority": 0,
        "pods": 10, "requests": {"cpu": 2, "memory": "2Gi"},
        "at": 0, "every": 0.375,              seconds: submission of the first job, and interval to the next
        "begin": 3600,                        seconds: no job of the group starts before
        "run": {"uniform": [180, 270]},       seconds
        "limit": 900,                         walltime in seconds; or "overestimate": a multiple of `run`, at least 1 s
        "nodeSelector": {...}, "tolerations": [...], "topologyRequest": {"required": "example.com/rack"}
      }]
    }

`run`, `limit`, `overestimate`, `every` and `pods` are numbers or distributions: {"uniform": [a, b]}, {"loguniform":
[a, b]}, {"exponential": mean}, {"choice": [a, b, ...]}. Only `run` is required; without `requests`, a pod requests one
CPU. A queue's quota is its share of all nodes. Queues that are not described have equal shares in one cohort.
The fields preemption, tolerations and topologyRequest are those of Kubernetes and Kueue objects.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zonewise_common.k8s.fields import FieldReader, object_in
from zonewise_common.k8s.nodeaffinity import read_node_selector
from zonewise_common.k8s.taints import read_tolerations
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS
from zonewise_scheduler.quota.api.queue_reader import read_cluster_queue
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.topology.request_reader import read_topology_request
from zonewise_scheduler.simulator.inputs.distributions import UniformStream
from zonewise_scheduler.simulator.inputs.fields import MAX_JOBS, distribution_field
from zonewise_scheduler.simulator.inputs.node_fleet import QueueSet, build_fleet_scenario, build_queue, build_queues
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.simulator.inputs.distributions import Distribution
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Scenario

_NAME = "jobs"
_JOB = "job"
_NAMESPACE = "default"
_MAX_PRIORITY = (1 << 31) - 1
_MAX_SEED = (1 << 63) - 1


def is_job_file(content: Mapping[str, Any]) -> bool:
    """Return whether an object has groups of jobs."""
    return "jobs" in content


def read_job_file(content: Mapping[str, Any], where: str, fleet: Fleet, seed: int | None = None) -> Scenario:
    """Return the jobs of an object on a fleet; `seed` overrides the seed in the file.

    A group or queue with an invalid field is left out and reported as a problem. Raises InputError if no job is left,
    or if there are too many.
    """
    problems: list[str] = []
    reader = FieldReader(content, "", problems)
    own_seed = reader.int_in_range("seed", 0, _MAX_SEED, 0)
    described_queues = _queues(reader, fleet)
    groups = _groups(reader)
    if sum(group.jobs for group in groups) > MAX_JOBS:
        raise InputError(where, f"jobs: more than {MAX_JOBS}: {sum(group.jobs for group in groups)}")
    name = reader.text("name") or _NAME
    settings = DEFAULT_SETTINGS._replace(fair_sharing=reader.flag("fairSharing", default=False))
    reader.ignore("description", "nodes")
    reader.report_unknown()
    queue_set = (
        QueueSet(described_queues)
        if described_queues
        else build_queues(fleet, [group.queue for group in groups if group.queue])
    )
    groups_with_queues = _with_queues(groups, queue_set.queues, problems)
    arrivals = _arrivals(groups_with_queues, own_seed if seed is None else seed, problems)
    texts = tuple(f"{where}: {group}" for group in problems)
    if not arrivals:
        raise InputError(where, "; ".join(["jobs: no job can be used", *problems]))
    return build_fleet_scenario(name, fleet, arrivals, queue_set, texts, settings)


class _Group(NamedTuple):
    """A group of jobs."""

    position: int
    """Position in the file."""
    name: str
    jobs: int
    single: bool
    """Whether the group's only job has the name of the group."""
    queue: str
    user: str
    priority: int
    template: PodSet
    pods: Distribution
    at: float
    begin: float
    every: Distribution
    run: Distribution
    limit: Distribution | None
    overestimate: Distribution | None


def _groups(parent: FieldReader) -> list[_Group]:
    groups: list[_Group] = []
    for position, reader in enumerate(parent.children("jobs")):
        before = len(parent.problems)
        reader.report_missing("run")
        group = _Group(
            position,
            reader.required_name() if reader.has("name") else _JOB,
            reader.int_in_range("count", 1, MAX_JOBS),
            not reader.has("count"),
            reader.text("queue"),
            reader.text("user"),
            reader.int_in_range("priority", 0, _MAX_PRIORITY, -_MAX_PRIORITY),
            _template(reader),
            distribution_field(reader, "pods", 1),
            reader.non_negative("at", 0),
            reader.non_negative("begin", 0),
            distribution_field(reader, "every", 0),
            distribution_field(reader, "run", 0),
            distribution_field(reader, "limit", 0) if reader.has("limit") else None,
            distribution_field(reader, "overestimate", 0) if reader.has("overestimate") else None,
        )
        if group.limit is not None and group.overestimate is not None:
            reader.report("overestimate", "there is a limit too")
        for field, distribution in (("limit", group.limit), ("overestimate", group.overestimate)):
            if distribution is not None and min(distribution.numbers) == 0:
                reader.report(field, "not above 0")
        if not 1 <= min(group.pods.numbers) <= group.pods.upper_bound <= MAX_PODS:
            reader.report("pods", f"not between 1 and {MAX_PODS}")
        if len(parent.problems) == before:
            groups.append(group)
        reader.report_unknown()
    return groups


def _template(reader: FieldReader) -> PodSet:
    requests = reader.amounts("requests", resource_value) if reader.has("requests") else {CPU: 1000}
    topology = None
    if reader.has("topologyRequest"):
        request = reader.spec_field(
            "topologyRequest", lambda spec: read_topology_request(object_in(spec, "topologyRequest", "spec.")), None
        )
        topology = None if request is None else TopologyRequest(request)
    return PodSet(
        requests={name: amount for name, amount in requests.items() if amount},
        node_selector=reader.spec_field("nodeSelector", read_node_selector, ()),
        tolerations=reader.spec_field("tolerations", lambda spec: read_tolerations(spec, comparisons=True), ()),
        topology=topology,
    )


def _queues(parent: FieldReader, fleet: Fleet) -> tuple[ClusterQueue, ...]:
    queues: dict[str, ClusterQueue] = {}
    readers = list(parent.children("queues"))
    for reader in readers:
        before = len(parent.problems)
        name = reader.required_name()
        share = Fraction(str(reader.non_negative("share", 0))) if reader.has("share") else Fraction(1, len(readers))
        advance = reader.flag("advanceReservations", default=False)
        cluster_queue = {"metadata": {"name": name}, "spec": {
            target: reader.obj[name] for name, target in _CLUSTER_QUEUE_FIELDS.items() if reader.has(name)
        }}  # fmt: skip
        reader.ignore(*_CLUSTER_QUEUE_FIELDS)
        queue, problems = read_cluster_queue(cluster_queue)
        parent.problems += [f"{reader.path}{problem.removeprefix('spec.')}" for problem in problems]
        if name in queues:
            reader.report("name", "exists already")
        if len(parent.problems) == before:
            queues[name] = queue._replace(
                resource_groups=build_queue(fleet, name, share).resource_groups,
                namespace_selector=(),
                advance_reservations=advance,
            )
        reader.report_unknown()
    return tuple(queues.values())


_CLUSTER_QUEUE_FIELDS = {
    "cohort": "cohortName", "strategy": "queueingStrategy", "preemption": "preemption", "fairSharing": "fairSharing",
}  # fmt: skip
"""Fields of a queue, with the corresponding fields of a ClusterQueue."""


def _with_queues(
    groups: Iterable[_Group], queues: tuple[ClusterQueue, ...], problems: list[str]
) -> list[tuple[_Group, ClusterQueue]]:
    """Return the groups with their queues; leave out a group of an unknown queue, as a problem."""
    by_name = {queue.name: queue for queue in queues}
    only_name = next(iter(by_name)) if len(by_name) == 1 else ""
    pairs: list[tuple[_Group, ClusterQueue]] = []
    for group in groups:
        queue = by_name.get(group.queue or only_name)
        if queue is None:
            problems.append(f"jobs[{group.position}].queue: not one of {', '.join(by_name)}: {group.queue!r}")
        else:
            pairs.append((group, queue))
    return pairs


def _arrivals(groups: Iterable[tuple[_Group, ClusterQueue]], seed: int, problems: list[str]) -> list[Arrival]:
    """Return the jobs of all groups by time, then in file order."""
    used_names: set[str] = set()
    arrivals: list[Arrival] = []
    for group, queue in groups:
        names = [group.name] if group.single else [f"{group.name}-{number}" for number in range(group.jobs)]
        if used_names.isdisjoint(names):
            used_names.update(names)
            arrivals += _jobs(group, queue.name, names, seed, len(arrivals))
        else:
            problems.append(f"jobs[{group.position}].name: jobs with this name exist already: {group.name!r}")
    return sorted(arrivals, key=lambda arrival: arrival.workload.created_at)


def _jobs(group: _Group, queue: str, names: list[str], seed: int, first: int) -> Iterable[Arrival]:
    stream = UniformStream(seed, group.position)
    count = group.jobs
    runs = group.run.sample(stream, count)
    pods: list[int] = group.pods.sample(stream, count).round().astype(np.int64).tolist()
    gaps = group.every.sample(stream, count)
    times = group.at + (gaps.cumsum() - gaps)
    walltimes = _walltimes(group, stream, runs)
    history_keys = (group.user, queue, group.name)
    pod_sets = {width: (group.template._replace(pods=width),) for width in set(pods)}
    numbers = zip(names, pods, runs.tolist(), times.tolist(), walltimes, strict=True)
    for serial, (name, width, run_time, submitted, walltime) in enumerate(numbers, first):
        workload = Workload(
            _NAMESPACE,
            name,
            pod_sets[width],
            f"{serial:08d}",
            queue,
            group.priority,
            submitted,
            walltime=walltime,
            begin_at=group.begin if group.begin > submitted else 0.0,
            history_keys=history_keys,
        )
        yield Arrival(workload, queue, run_time, group.name)


def _walltimes(group: _Group, stream: UniformStream, runs: NDArray[np.float64]) -> list[float]:
    if group.limit is not None:
        return group.limit.sample(stream, group.jobs).tolist()
    if group.overestimate is not None:
        return np.maximum(group.overestimate.sample(stream, group.jobs) * runs, 1).tolist()
    return [inf] * group.jobs
