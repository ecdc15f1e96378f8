"""The generator files of Kueue's performance tests (kubernetes-sigs/kueue test/performance/scheduler).

configs/*/generator.yaml, of which runner/generator/generator.go makes objects: a ClusterQueue for each queue of each
set, all of whose sets of workloads come at the same time, each workload one interval after the one before, and the
first after one interval. There is one flavor, and CPUs are all that quotas have.

Two things differ. Where there is a topology, nodes get hostnames of their own rather than such as repeat in each rack.
A number of pods counts without a level too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.api.amount import amount_from_quantity, resource_value
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.fields import MAX_JOBS, MAX_PODS
from zonewise_scheduler.simulator.inputs.kueue_generator_nodes import read_generated_nodes
from zonewise_scheduler.simulator.scenario import Arrival, Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

_CPU = "cpu"
_MOST_PRIORITY = (1 << 31) - 1
_MOST_QUEUES = 100_000
_MOST_MS = 1 << 53

_Reclaim = Literal["Never", "LowerPriority", "Any"]
_Within = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_Constraint = Literal["required", "preferred", "balanced"]


def is_generator(content: Mapping[str, Any]) -> bool:
    """Tell whether an object is such a file."""
    return "cohorts" in content


def read_generator(content: Mapping[str, Any], where: str) -> Scenario:
    """Return what a generator file makes, workloads by time.

    A set with an invalid field is left out, and told. Raises InputError where nothing is left, or there is too much.
    """
    problems: list[str] = []
    whole = FieldReader(content, "", problems)
    ground = read_generated_nodes(whole, where)
    made = _Made(ground.flavors[0].name, where)
    for one in whole.children("cohorts"):
        _cohorts(one, made)
    whole.ignore("name", "description")
    name = whole.text("name") or "generator"
    whole.report_unknown()
    if not made.arrivals:
        raise InputError(where, "; ".join(["cohorts: they have no workloads", *problems]))
    made.arrivals.sort(key=lambda one: one.workload.created_at)
    return Scenario(
        name,
        made.arrivals,
        tuple(made.queues.values()),
        tuple(made.cohorts.values()),
        ground.flavors,
        ground.topologies,
        ground.nodes,
        problems=tuple(f"{where}: {one}" for one in problems),
    )


class _Template(NamedTuple):
    """Workloads of one sort."""

    name: str
    run: float
    priority: int
    pod_sets: tuple[PodSet, ...]


class _Set(NamedTuple):
    """Templates that are made one after the other, time and again."""

    index: int
    """In the file."""
    repetitions: int
    interval: float
    templates: tuple[tuple[int, _Template], ...]
    """Those that can be used, with their places; the time of others passes too."""
    steps: int
    """How many there are in the file."""


class _Made:
    """What was made so far."""

    def __init__(self, flavor: str, where: str) -> None:
        self.flavor = flavor
        self.where = where
        self.cohorts: dict[str, Cohort] = {}
        self.queues: dict[str, ClusterQueue] = {}
        self.arrivals: list[Arrival] = []

    def check(self, queues: int, sets: list[_Set]) -> None:
        """Raise InputError where so many queues, each with such sets, are too many."""
        more = queues * sum(one.repetitions * len(one.templates) for one in sets)
        if len(self.arrivals) + more > MAX_JOBS:
            raise InputError(self.where, f"cohorts: more than {MAX_JOBS} workloads")
        if len(self.queues) + queues > _MOST_QUEUES:
            raise InputError(self.where, f"cohorts: more than {_MOST_QUEUES} queues")

    def add(self, queue: ClusterQueue, sets: list[_Set]) -> None:
        """Add a queue with its workloads."""
        if queue.name in self.queues:
            raise InputError(self.where, f"cohorts: there are two queues of the name {queue.name!r}")
        self.queues[queue.name] = queue
        for one in sets:
            self._add_set(queue.name, one)

    def _add_set(self, queue: str, one: _Set) -> None:
        for turn in range(one.repetitions):
            for step, template in one.templates:
                workload = Workload(
                    queue,
                    f"{template.name}-{one.index}-{turn}-{step}",
                    template.pod_sets,
                    f"{len(self.arrivals):08d}",
                    queue,
                    template.priority,
                    (turn * one.steps + step + 1) * one.interval,
                    history_keys=("", queue, template.name),
                )
                self.arrivals.append(Arrival(workload, queue, template.run, template.name))


def _cohorts(one: FieldReader, made: _Made) -> None:
    before = len(one.problems)
    kind, count = one.required_name("className"), one.int_in_range("count", 1, _MOST_QUEUES)
    names = [f"{kind}-{number}" for number in range(count)]
    if any(name in made.cohorts for name in names):
        one.report("className", "there are such cohorts already")
    if len(one.problems) > before:
        return
    made.cohorts |= {name: Cohort(name) for name in names}
    for place, queues in enumerate(one.children("queuesSets")):
        _queues(queues, place, names, made)
    one.report_unknown()


def _queues(one: FieldReader, place: int, cohorts: list[str], made: _Made) -> None:
    before = len(one.problems)
    one.report_missing("nominalQuota")
    kind, count = one.required_name("className"), one.int_in_range("count", 1, _MOST_QUEUES)
    nominal, borrowing = (
        one.quantity(name, lambda value: amount_from_quantity(_CPU, value))
        for name in ("nominalQuota", "borrowingLimit")
    )
    group_of_cpus = resource_group(FlavorQuotas(made.flavor, ((_CPU, ResourceQuota(nominal or 0, borrowing)),)))
    reclaim: _Reclaim = "Never"
    inside: _Within = "Never"
    preemption = ClusterQueuePreemption(
        one.choice("withinClusterQueue", _Within, inside), one.choice("reclaimWithinCohort", _Reclaim, reclaim)
    )
    sound = len(one.problems) == before
    sets = [
        found for number, own in enumerate(one.children("workloadsSets")) if (found := _set(number, own)) is not None
    ]
    one.report_unknown()
    if sound:
        made.check(len(cohorts) * count, sets)
        for cohort in cohorts:
            for number in range(count):
                name = f"{kind}-{place}-{number}-{cohort}"
                queue = ClusterQueue(name, (group_of_cpus,), cohort, preemption=preemption)
                made.add(queue, sets)


def _set(place: int, one: FieldReader) -> _Set | None:
    before = len(one.problems)
    one.report_missing("count", "creationIntervalMs")
    count = one.int_in_range("count", 0, MAX_JOBS, 0)
    interval = one.int_in_range("creationIntervalMs", 0, _MOST_MS, 0)
    sound = len(one.problems) == before
    templates = [_template(own) for own in one.children("workloads")]
    one.report_unknown()
    usable = tuple((step, own) for step, own in enumerate(templates) if own is not None)
    return _Set(place, count, interval / 1000, usable, len(templates)) if sound else None


def _template(one: FieldReader) -> _Template | None:
    before = len(one.problems)
    one.report_missing("runtimeMs", "request")
    request = one.quantity("request", lambda value: resource_value(_CPU, value))
    pods = PodSet(
        pods=one.int_in_range("podCount", 1, MAX_PODS), requests={_CPU: request or 0}, topology=_topology(one)
    )
    run = one.int_in_range("runtimeMs", 0, _MOST_MS, 0) / 1000
    priority = one.int_in_range("priority", 0, _MOST_PRIORITY, -_MOST_PRIORITY)
    found = _Template(one.required_name("className"), run, priority, (pods,))
    sound = len(one.problems) == before
    one.report_unknown()
    return found if sound else None


def _topology(one: FieldReader) -> TopologyRequest | None:
    """Return what is asked of the topology; "balanced" are slices, of one pod where no size is given."""
    level = one.text("tasLevel")
    default: _Constraint | None = None
    constraint = one.choice("tasConstraint", _Constraint, default)
    size = one.int_in_range("sliceSize", 1, MAX_PODS)
    if not level or constraint is None:
        return None
    if constraint == "balanced":
        return TopologyRequest(PodSetTopologyRequest(slice_constraints=(SliceConstraint(level, size),)))
    return TopologyRequest(
        PodSetTopologyRequest(required=level) if constraint == "required" else PodSetTopologyRequest(preferred=level)
    )
