"""The generator files of Kueue's performance tests (kubernetes-sigs/kueue test/performance/scheduler).

The files are configs/*/generator.yaml. As in runner/generator/generator.go, each queue of each set becomes a
ClusterQueue. All its workload sets start at the same time. The first workload is created after one interval, and each
later one an interval after the previous one. There is one flavor, and quotas are in CPUs.

There are two deliberate differences. Hostnames are unique in the whole cluster instead of only in a rack, and a number
of pods counts even without a level.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.k8s.quantity import parse_milli_value, parse_value
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.quota.api.amount import amount_from_quantity, resource_value
from zonewise_scheduler.quota.api.job_pod_sets import MAX_PODS
from zonewise_scheduler.quota.api.queue_types import ClusterQueue, ClusterQueuePreemption, Cohort, ResourceFlavor
from zonewise_scheduler.quota.api.resource_quota import FlavorQuotas, ResourceQuota, resource_group
from zonewise_scheduler.quota.api.workload_types import PodSet, TopologyRequest, Workload
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, SliceConstraint
from zonewise_scheduler.simulator.inputs.fields import MAX_JOBS
from zonewise_scheduler.simulator.inputs.fleet_levels import MAX_NODES, Level, NodeGroup, build_fleet
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival, Scenario

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.nodes.filters.info_table import NodeInfoTable

_CPU = "cpu"
_MAX_PRIORITY = (1 << 31) - 1
_MAX_QUEUES = 100_000
_MAX_MS = 1 << 53

_FLAVOR = "rf"
_GROUP = "tas"
"""Value of the flavor's node label."""
_MILLI_CPUS, _MEMORY, _PODS = 96_000, 256 << 30, 110
"""Defaults of a node; memory in bytes."""

_Reclaim = Literal["Never", "LowerPriority", "Any"]
_WithinClusterQueue = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
_Constraint = Literal["required", "preferred", "balanced"]


def is_generator(content: Mapping[str, Any]) -> bool:
    """Return whether an object is a generator file."""
    return "cohorts" in content


def read_generator(content: Mapping[str, Any], where: str) -> Scenario:
    """Return the scenario of a generator file, with workloads by time.

    A set with an invalid field is left out and reported as a problem. Raises InputError if nothing is left, or if there
    is too much.
    """
    problems: list[str] = []
    reader = FieldReader(content, "", problems)
    nodes = read_generated_nodes(reader, where)
    cluster = _GeneratedObjects(nodes.flavors[0].name, where)
    for child in reader.children("cohorts"):
        _cohorts(child, cluster)
    reader.ignore("name", "description")
    name = reader.text("name") or "generator"
    reader.report_unknown()
    if not cluster.arrivals:
        raise InputError(where, "; ".join(["cohorts: they have no workloads", *problems]))
    cluster.arrivals.sort(key=lambda child: child.workload.created_at)
    return Scenario(
        name,
        cluster.arrivals,
        tuple(cluster.queues.values()),
        tuple(cluster.cohorts.values()),
        nodes.flavors,
        nodes.topologies,
        nodes.nodes,
        problems=tuple(f"{where}: {child}" for child in problems),
    )


class _Template(NamedTuple):
    """The template of identical workloads."""

    name: str
    run: float
    priority: int
    pod_sets: tuple[PodSet, ...]


class _Set(NamedTuple):
    """Templates whose workloads are created one after the other, repeatedly."""

    position: int
    """Position in the file."""
    repetitions: int
    interval: float
    templates: tuple[tuple[int, _Template], ...]
    """Valid templates with their indices; an invalid one still takes its interval."""
    steps: int
    """Number of templates in the file."""


class _GeneratedObjects:
    """The objects created so far."""

    def __init__(self, flavor: str, where: str) -> None:
        self.flavor = flavor
        self.where = where
        self.cohorts: dict[str, Cohort] = {}
        self.queues: dict[str, ClusterQueue] = {}
        self.arrivals: list[Arrival] = []

    def check(self, queues: int, sets: list[_Set]) -> None:
        """Raise InputError if this number of queues, each with these sets, is too large."""
        additional = queues * sum(workload_set.repetitions * len(workload_set.templates) for workload_set in sets)
        if len(self.arrivals) + additional > MAX_JOBS:
            raise InputError(self.where, f"cohorts: more than {MAX_JOBS} workloads")
        if len(self.queues) + queues > _MAX_QUEUES:
            raise InputError(self.where, f"cohorts: more than {_MAX_QUEUES} queues")

    def add(self, queue: ClusterQueue, sets: list[_Set]) -> None:
        """Add a queue with its workloads."""
        if queue.name in self.queues:
            raise InputError(self.where, f"cohorts: two queues have the name {queue.name!r}")
        self.queues[queue.name] = queue
        for workload_set in sets:
            self._add_set(queue.name, workload_set)

    def _add_set(self, queue: str, workload_set: _Set) -> None:
        for repetition in range(workload_set.repetitions):
            for step, template in workload_set.templates:
                workload = Workload(
                    queue,
                    f"{template.name}-{workload_set.position}-{repetition}-{step}",
                    template.pod_sets,
                    f"{len(self.arrivals):08d}",
                    queue,
                    template.priority,
                    (repetition * workload_set.steps + step + 1) * workload_set.interval,
                    history_keys=("", queue, template.name),
                )
                self.arrivals.append(Arrival(workload, queue, template.run, template.name))


def _cohorts(reader: FieldReader, cluster: _GeneratedObjects) -> None:
    before = len(reader.problems)
    kind, count = reader.required_name("className"), reader.int_in_range("count", 1, _MAX_QUEUES)
    names = [f"{kind}-{number}" for number in range(count)]
    if any(name in cluster.cohorts for name in names):
        reader.report("className", "these cohorts exist already")
    if len(reader.problems) > before:
        return
    cluster.cohorts |= {name: Cohort(name) for name in names}
    for index, child in enumerate(reader.children("queuesSets")):
        _queues(child, index, names, cluster)
    reader.report_unknown()


def _queues(reader: FieldReader, index: int, cohorts: list[str], cluster: _GeneratedObjects) -> None:
    before = len(reader.problems)
    reader.report_missing("nominalQuota")
    kind, count = reader.required_name("className"), reader.int_in_range("count", 1, _MAX_QUEUES)
    nominal, borrowing = (
        reader.quantity(name, lambda value: amount_from_quantity(_CPU, value))
        for name in ("nominalQuota", "borrowingLimit")
    )
    cpu_group = resource_group(FlavorQuotas(cluster.flavor, ((_CPU, ResourceQuota(nominal or 0, borrowing)),)))
    reclaim: _Reclaim = "Never"
    within: _WithinClusterQueue = "Never"
    preemption = ClusterQueuePreemption(
        reader.choice("withinClusterQueue", _WithinClusterQueue, within),
        reader.choice("reclaimWithinCohort", _Reclaim, reclaim),
    )
    valid = len(reader.problems) == before
    sets = [
        workload_set
        for number, child in enumerate(reader.children("workloadsSets"))
        if (workload_set := _set(number, child)) is not None
    ]
    reader.report_unknown()
    if valid:
        cluster.check(len(cohorts) * count, sets)
        for cohort in cohorts:
            for number in range(count):
                name = f"{kind}-{index}-{number}-{cohort}"
                queue = ClusterQueue(name, (cpu_group,), cohort, preemption=preemption)
                cluster.add(queue, sets)


def _set(position: int, reader: FieldReader) -> _Set | None:
    before = len(reader.problems)
    reader.report_missing("count", "creationIntervalMs")
    count = reader.int_in_range("count", 0, MAX_JOBS, 0)
    interval = reader.int_in_range("creationIntervalMs", 0, _MAX_MS, 0)
    valid = len(reader.problems) == before
    templates = [_template(template) for template in reader.children("workloads")]
    reader.report_unknown()
    usable = tuple((step, template) for step, template in enumerate(templates) if template is not None)
    return _Set(position, count, interval / 1000, usable, len(templates)) if valid else None


def _template(reader: FieldReader) -> _Template | None:
    before = len(reader.problems)
    reader.report_missing("runtimeMs", "request")
    request = reader.quantity("request", lambda value: resource_value(_CPU, value))
    pods = PodSet(
        pods=reader.int_in_range("podCount", 1, MAX_PODS), requests={_CPU: request or 0}, topology=_topology(reader)
    )
    run_time = reader.int_in_range("runtimeMs", 0, _MAX_MS, 0) / 1000
    priority = reader.int_in_range("priority", 0, _MAX_PRIORITY, -_MAX_PRIORITY)
    template = _Template(reader.required_name("className"), run_time, priority, (pods,))
    valid = len(reader.problems) == before
    reader.report_unknown()
    return template if valid else None


def _topology(reader: FieldReader) -> TopologyRequest | None:
    """Return the topology request; "balanced" means slices, of one pod by default."""
    level = reader.text("tasLevel")
    default: _Constraint | None = None
    constraint = reader.choice("tasConstraint", _Constraint, default)
    size = reader.int_in_range("sliceSize", 1, MAX_PODS)
    if not level or constraint is None:
        return None
    if constraint == "balanced":
        return TopologyRequest(PodSetTopologyRequest(slice_constraints=(SliceConstraint(level, size),)))
    return TopologyRequest(
        PodSetTopologyRequest(required=level) if constraint == "required" else PodSetTopologyRequest(preferred=level)
    )


# --- nodes, topology and flavor: runner/generator/topology_generator.go


class GeneratedNodes(NamedTuple):
    """The nodes of a generator file."""

    flavors: tuple[ResourceFlavor, ...]
    """The only flavor."""
    topologies: Mapping[str, tuple[str, ...]] = {}
    nodes: NodeInfoTable | None = None
    """None if only quotas count."""


def read_generated_nodes(parent: FieldReader, where: str) -> GeneratedNodes:
    """Return the nodes of a generator file. Raises InputError for an invalid topology."""
    flavor_reader = parent.child("resourceFlavor")
    name, label, topology = (
        flavor_reader.text("name", _FLAVOR),
        flavor_reader.text("nodeLabel"),
        flavor_reader.text("topologyName"),
    )
    flavor_reader.report_unknown()
    labels = {label: _GROUP} if label and topology else {}
    flavor = ResourceFlavor(name, labels, topology_name=topology)
    if not parent.has("topology"):
        return GeneratedNodes((flavor._replace(topology_name=""),))
    before = len(parent.problems)
    topology_reader = parent.child("topology")
    name_ = topology_reader.required_name()
    levels = [_level(child) for child in topology_reader.children("levels")]
    topology_reader.report_unknown()
    if len(levels) < 2:
        topology_reader.problems.append("topology.levels: at least two levels are required")
    nodes = 1
    for level, _ in levels:
        nodes *= level.size
    if nodes > MAX_NODES:
        topology_reader.problems.append(f"topology.levels: more than {MAX_NODES} nodes: {nodes}")
    if not topology or not label:
        topology_reader.problems.append("resourceFlavor: with a topology it has a nodeLabel and a topologyName")
    elif name_ != topology:
        topology_reader.problems.append(f"resourceFlavor.topologyName: there is only {name_!r}: {topology!r}")
    if len(parent.problems) > before:
        raise InputError(where, "; ".join(parent.problems[before:]))
    fleet = build_fleet(name_, [level for level, _ in levels], [(NodeGroup(name, levels[-1][1], labels), nodes)])
    return GeneratedNodes((flavor,), fleet.topologies, fleet.nodes)


def _level(reader: FieldReader) -> tuple[Level, Resource]:
    reader.report_missing("count")
    capacity = reader.child("capacity")
    cpus, memory = capacity.quantity("cpu", parse_milli_value), capacity.quantity("memory", parse_value)
    capacity.report_unknown()
    level = Level(reader.required_name(), reader.int_in_range("count", 1, MAX_NODES), reader.required_name("nodeLabel"))
    reader.report_unknown()
    allocatable = Resource(_MILLI_CPUS if cpus is None else cpus, _MEMORY if memory is None else memory, _PODS, 0)
    return level, allocatable
