"""Job files, in JSON or YAML: groups of jobs, and what they run on.

    {
      "name": "a name", "description": "what for", "seed": 1,
      "fairSharing": false,
      "nodes": "100x64",                      or an object as in fleet.py; --nodes comes before it
      "queues": [{"name": "a", "share": 0.5, "cohort": "c", "strategy": "StrictFIFO", "preemption": {...}}],
      "jobs": [{
        "name": "job", "count": 1000,         names are job-0, job-1, ...; without a count there is one, "job"
        "queue": "a", "user": "u", "priority": 0,
        "pods": 10, "requests": {"cpu": 2, "memory": "2Gi"},
        "at": 0, "every": 0.375,              seconds: when the first comes, and how long after it the next
        "run": {"uniform": [180, 270]},       seconds
        "limit": 900,                         declared, in seconds; or "overestimate": so many times `run`, at least 1
        "nodeSelector": {...}, "tolerations": [...], "topologyRequest": {"required": "example.com/rack"}
      }]
    }

`run`, `limit`, `overestimate`, `every` and `pods` are numbers or distributions: {"uniform": [a, b]}, {"loguniform":
[a, b]}, {"exponential": mean}, {"choice": [a, b, ...]}. Only `run` must be there; without `requests` a pod requests one
CPU. A queue's quota is its share of all nodes; queues that jobs name and nobody describes have equal shares and lend to
each other. preemption, tolerations and topologyRequest are as in the objects of Kubernetes and Kueue.
"""

from __future__ import annotations

from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.nodeaffinity import read_node_selector
from zonewise_common.k8s.taints import read_tolerations
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.quota.api.amount import resource_value
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS
from zonewise_scheduler.quota.api.queue_reader import read_cluster_queue
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.topology.request_reader import read_topology_request
from zonewise_scheduler.simulator.inputs.distributions import UniformStream
from zonewise_scheduler.simulator.inputs.fields import MAX_JOBS, MAX_PODS, distribution_field
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
_MOST_PRIORITY = (1 << 31) - 1
_SEEDS = (1 << 63) - 1


def is_job_file(content: Mapping[str, Any]) -> bool:
    """Tell whether an object has groups of jobs."""
    return "jobs" in content


def read_job_file(content: Mapping[str, Any], where: str, fleet: Fleet, seed: int | None = None) -> Scenario:
    """Return the jobs of an object on a fleet; `seed` comes before the file's.

    A group, or a queue, with an invalid field is left out, and told. Raises InputError where no job is left, or there
    are too many.
    """
    problems: list[str] = []
    whole = FieldReader(content, "", problems)
    own_seed = whole.int_in_range("seed", 0, _SEEDS, 0)
    described = _queues(whole, fleet)
    groups = _groups(whole)
    if sum(one.jobs for one in groups) > MAX_JOBS:
        raise InputError(where, f"jobs: more than {MAX_JOBS}: {sum(one.jobs for one in groups)}")
    name = whole.text("name") or _NAME
    settings = DEFAULT_SETTINGS._replace(fair_sharing=whole.flag("fairSharing", default=False))
    whole.ignore("description", "nodes")
    whole.report_unknown()
    made = QueueSet(described) if described else build_queues(fleet, [one.queue for one in groups if one.queue])
    places = _known(groups, made.queues, problems)
    arrivals = _arrivals(places, own_seed if seed is None else seed, problems)
    told = tuple(f"{where}: {one}" for one in problems)
    if not arrivals:
        raise InputError(where, "; ".join(["jobs: there is none", *problems]))
    return build_fleet_scenario(name, fleet, arrivals, made, told, settings)


class _Group(NamedTuple):
    """A group of jobs."""

    index: int
    """In the file."""
    name: str
    jobs: int
    alone: bool
    """There is one, with the group's own name."""
    queue: str
    user: str
    priority: int
    template: PodSet
    pods: Distribution
    at: float
    every: Distribution
    run: Distribution
    limit: Distribution | None
    overestimate: Distribution | None


def _groups(whole: FieldReader) -> list[_Group]:
    found: list[_Group] = []
    for place, one in enumerate(whole.children("jobs")):
        before = len(whole.problems)
        one.report_missing("run")
        group = _Group(
            place,
            one.required_name() if one.has("name") else _JOB,
            one.int_in_range("count", 1, MAX_JOBS),
            not one.has("count"),
            one.text("queue"),
            one.text("user"),
            one.int_in_range("priority", 0, _MOST_PRIORITY, -_MOST_PRIORITY),
            _template(one),
            distribution_field(one, "pods", 1),
            one.non_negative("at", 0),
            distribution_field(one, "every", 0),
            distribution_field(one, "run", 0),
            distribution_field(one, "limit", 0) if one.has("limit") else None,
            distribution_field(one, "overestimate", 0) if one.has("overestimate") else None,
        )
        if group.limit is not None and group.overestimate is not None:
            one.report("overestimate", "there is a limit too")
        for field, drawn in (("limit", group.limit), ("overestimate", group.overestimate)):
            if drawn is not None and min(drawn.numbers) == 0:
                one.report(field, "not above 0")
        if not 1 <= min(group.pods.numbers) <= group.pods.upper_bound <= MAX_PODS:
            one.report("pods", f"not from 1 to {MAX_PODS}")
        if len(whole.problems) == before:
            found.append(group)
        one.report_unknown()
    return found


def _template(one: FieldReader) -> PodSet:
    requests = one.amounts("requests", resource_value) if one.has("requests") else {CPU: 1000}
    topology = None
    if one.has("topologyRequest"):
        request = one.spec_field("topologyRequest", lambda spec: read_topology_request(spec["topologyRequest"]), None)
        topology = None if request is None else TopologyRequest(request)
    return PodSet(
        requests={name: amount for name, amount in requests.items() if amount},
        node_selector=one.spec_field("nodeSelector", read_node_selector, ()),
        tolerations=one.spec_field("tolerations", lambda spec: read_tolerations(spec, comparisons=True), ()),
        topology=topology,
    )


def _queues(whole: FieldReader, fleet: Fleet) -> tuple[ClusterQueue, ...]:
    found: dict[str, ClusterQueue] = {}
    given = list(whole.children("queues"))
    for one in given:
        before = len(whole.problems)
        name = one.required_name()
        share = Fraction(str(one.non_negative("share", 0))) if one.has("share") else Fraction(1, len(given))
        rules = {"metadata": {"name": name}, "spec": {
            field: one.obj[own] for own, field in _RULES.items() if one.has(own)
        }}  # fmt: skip
        one.ignore(*_RULES)
        read, problems = read_cluster_queue(rules)
        whole.problems += [f"{one.path}{problem.removeprefix('spec.')}" for problem in problems]
        if name in found:
            one.report("name", "is there already")
        if len(whole.problems) == before:
            found[name] = read._replace(
                resource_groups=build_queue(fleet, name, share).resource_groups, namespace_selector=()
            )
        one.report_unknown()
    return tuple(found.values())


_RULES = {
    "cohort": "cohortName", "strategy": "queueingStrategy", "preemption": "preemption", "fairSharing": "fairSharing",
}  # fmt: skip
"""Fields of a queue, and those of a ClusterQueue that they are."""


def _known(
    groups: Iterable[_Group], queues: tuple[ClusterQueue, ...], problems: list[str]
) -> list[tuple[_Group, ClusterQueue]]:
    """Return the groups with their queues; those of a queue that there is not are told and left out."""
    by_name = {one.name: one for one in queues}
    only = next(iter(by_name)) if len(by_name) == 1 else ""
    found: list[tuple[_Group, ClusterQueue]] = []
    for group in groups:
        queue = by_name.get(group.queue or only)
        if queue is None:
            problems.append(f"jobs[{group.index}].queue: not one of {', '.join(by_name)}: {group.queue!r}")
        else:
            found.append((group, queue))
    return found


def _arrivals(groups: Iterable[tuple[_Group, ClusterQueue]], seed: int, problems: list[str]) -> list[Arrival]:
    """Return the jobs of all groups by time, those of one time in the order of the file."""
    taken: set[str] = set()
    found: list[Arrival] = []
    for group, queue in groups:
        names = [group.name] if group.alone else [f"{group.name}-{number}" for number in range(group.jobs)]
        if taken.isdisjoint(names):
            taken.update(names)
            found += _jobs(group, queue.name, names, seed, len(found))
        else:
            problems.append(f"jobs[{group.index}].name: there are jobs of that name already: {group.name!r}")
    return sorted(found, key=lambda one: one.workload.created_at)


def _jobs(group: _Group, queue: str, names: list[str], seed: int, first: int) -> Iterable[Arrival]:
    dice = UniformStream(seed, group.index)
    count = group.jobs
    runs = group.run.sample(dice, count)
    pods: list[int] = group.pods.sample(dice, count).round().astype(np.int64).tolist()
    gaps = group.every.sample(dice, count)
    times = group.at + (gaps.cumsum() - gaps)
    limits = _limits(group, dice, runs)
    kin = (group.user, queue, group.name)
    sets = {width: (group.template._replace(pods=width),) for width in set(pods)}
    numbers = zip(names, pods, runs.tolist(), times.tolist(), limits, strict=True)
    for serial, (name, width, run, at, limit) in enumerate(numbers, first):
        workload = Workload(
            _NAMESPACE, name, sets[width], f"{serial:08d}", queue, group.priority, at, walltime=limit, history_keys=kin
        )
        yield Arrival(workload, queue, run, group.name)


def _limits(group: _Group, dice: UniformStream, runs: NDArray[np.float64]) -> list[float]:
    if group.limit is not None:
        return group.limit.sample(dice, group.jobs).tolist()
    if group.overestimate is not None:
        return np.maximum(group.overestimate.sample(dice, group.jobs) * runs, 1).tolist()
    return [inf] * group.jobs
