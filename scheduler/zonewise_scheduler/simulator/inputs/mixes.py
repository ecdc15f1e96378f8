"""Synthetic workloads: mixes, generated from a name, a number of jobs, a load and a seed.

The generators draw from distributions that measured workloads have in common; each names its sources. Jobs arrive in a
Poisson process whose mean work is a share of the fleet's capacity (the load). Widths are limited to the fleet.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.admission.resource_names import CPU
from zonewise_scheduler.quota.api.amount import UNLIMITED
from zonewise_scheduler.quota.api.workload_types import PodSet, Workload
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.inputs.distributions import UniformStream, exponential, log_uniform
from zonewise_scheduler.simulator.inputs.fields import MAX_JOBS
from zonewise_scheduler.simulator.inputs.fleet_levels import UNSPECIFIED, Level, NodeGroup, build_fleet
from zonewise_scheduler.simulator.inputs.node_fleet import DEFAULT_QUEUE, build_fleet_scenario, build_queues
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.scenario import Arrival

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Scenario

DEFAULT_JOBS = 10_000
"""Number of jobs."""
DEFAULT_LOAD = 0.9
GPU = "nvidia.com/gpu"

_MINUTE, _HOUR, _DAY = 60.0, 3600.0, 86400.0
_MILLI = 1000


class Mix(NamedTuple):
    """A kind of workload."""

    fleet: Callable[[], Fleet]
    """The default fleet."""
    resource: str
    """The resource in which its load is measured."""
    generate: Callable[[UniformStream, int, _FleetSize], list[_JobClass]]


class _FleetSize(NamedTuple):
    """Bounds on the width of jobs."""

    nodes: int
    per_node: int
    """Amount of the mix's resource on the largest node: whole CPUs or GPUs."""
    cpus: int
    """Whole CPUs of the largest node."""


class _JobClass(NamedTuple):
    """Jobs of one class; all arrays are (jobs,)."""

    name: str
    at: NDArray[np.int64]
    """Indices of the jobs among all jobs."""
    pods: NDArray[np.int64]
    units: NDArray[np.int64]
    """Amount of the mix's resource per pod."""
    run: NDArray[np.float64]
    estimate: NDArray[np.float64]
    """Walltimes, in seconds."""


def build_mix(
    name: str, fleet: Fleet | None = None, *, jobs: int | None = None, load: float | None = None, seed: int = 0
) -> Scenario:
    """Return jobs of a mix. Raises InputError for an unknown mix, or for nodes without its resource."""
    if name not in MIXES:
        raise InputError(name, f"unknown mix; the mixes are {', '.join(MIXES)}")
    count, target_load = DEFAULT_JOBS if jobs is None else jobs, DEFAULT_LOAD if load is None else load
    if not 1 <= count <= MAX_JOBS:
        raise InputError(name, f"jobs: {count} is not between 1 and {MAX_JOBS}")
    if not 0 < target_load < inf:
        raise InputError(name, f"load: {target_load} is not above 0")
    mix = MIXES[name]
    nodes = mix.fleet() if fleet is None else fleet
    capacity = nodes.total_capacity.get(mix.resource, 0)
    size = _size(nodes, mix.resource)
    if not size.per_node or capacity == UNLIMITED:
        advice = "omit --nodes, or use nodes that have it"
        raise InputError(name, f"nodes: no node has {mix.resource}, which its jobs need; {advice}")
    stream = UniformStream(seed)
    classes = mix.generate(stream, count, size)
    unit = _MILLI if mix.resource == CPU else 1
    work = (
        sum(float((jobs_of_class.pods * jobs_of_class.units * jobs_of_class.run).sum()) for jobs_of_class in classes)
        * unit
    )
    gaps = exponential(stream.uniform(count), work / count / capacity / target_load)
    arrivals = _arrivals(classes, gaps.cumsum(), mix.resource, size)
    return build_fleet_scenario(name, nodes, arrivals, build_queues(nodes, ()))


def _arrivals(
    classes: Sequence[_JobClass], times: NDArray[np.float64], resource: str, size: _FleetSize
) -> list[Arrival]:
    pod_sets: dict[tuple[int, int], tuple[PodSet, ...]] = {}
    indexed: list[tuple[int, Arrival]] = []
    for jobs_of_class in classes:
        kin = ("", DEFAULT_QUEUE, jobs_of_class.name)
        columns = (
            jobs_of_class.at,
            jobs_of_class.pods,
            jobs_of_class.units,
            jobs_of_class.run,
            jobs_of_class.estimate,
            times[jobs_of_class.at],
        )
        for index, pods, units, run, limit, at in zip(*(column.tolist() for column in columns), strict=True):
            if (pods, units) not in pod_sets:
                pod_sets[pods, units] = (PodSet(pods=pods, requests=_requests(resource, units, size)),)
            workload = Workload(
                "mix",
                f"{jobs_of_class.name}-{index}",
                pod_sets[pods, units],
                f"{index:08d}",
                DEFAULT_QUEUE,
                created_at=at,
                walltime=limit,
                history_keys=kin,
            )
            indexed.append((index, Arrival(workload, DEFAULT_QUEUE, run, jobs_of_class.name)))
    return [arrival for _, arrival in sorted(indexed, key=lambda pair: pair[0])]


def _requests(resource: str, units: int, size: _FleetSize) -> dict[str, int]:
    """Return the requests of a pod; with GPUs, the share of a node's CPUs equals the share of its GPUs."""
    if resource == CPU:
        return {CPU: units * _MILLI}
    return {CPU: size.cpus * _MILLI * units // size.per_node, resource: units}


def _size(fleet: Fleet, resource: str) -> _FleetSize:
    allocatables = {info.allocatable for info in fleet.nodes.infos if info is not None}
    widest = max(allocatables, key=lambda allocatable: _units(allocatable, resource), default=Resource(0, 0, 0, 0))
    nodes = sum(info is not None and info.allocatable == widest for info in fleet.nodes.infos)
    return _FleetSize(nodes, _units(widest, resource), widest.milli_cpus // _MILLI)


def _units(allocatable: Resource, resource: str) -> int:
    return allocatable.milli_cpus // _MILLI if resource == CPU else dict(allocatable.scalar_resources).get(resource, 0)


# --- the mixes


def _nodes(count: int, cpus: int, gpus: int = 0) -> Fleet:
    extended = ((GPU, gpus),) if gpus else ()
    allocatable = Resource(cpus * _MILLI, UNSPECIFIED, UNSPECIFIED, UNSPECIFIED, extended)
    levels = [Level("rack", count // 32, "zonewise.dev/topology-rack"), Level("node", 32, HOSTNAME)]
    return build_fleet("nodes", levels, [
        (NodeGroup("nodes", allocatable, {}), count // 32 * 32)
    ])  # fmt: skip


def _hpc(stream: UniformStream, count: int, fleet_size: _FleetSize) -> list[_JobClass]:
    """Return jobs of a supercomputer: from one CPU to all nodes, and from a minute to a day.

    Logarithms of widths are uniform. A quarter of the jobs are serial; three quarters of the others have a power of two
    as their width (Lublin and Feitelson, JPDC 63(11), 2003). Run times are log-uniform (Downey, HPDC 1997). Walltimes
    are 2 to 5 times as long: in the logs of the Parallel Workloads Archive, jobs use .20 to .48 of them. A job wider
    than a node uses whole nodes, with one pod per node.
    """
    max_width = fleet_size.nodes * fleet_size.per_node
    widths = log_uniform(stream.uniform(count), 2, max_width) if max_width > 2 else np.full(count, float(max_width))
    widths = np.where(stream.uniform(count) < 0.75, 2 ** np.log2(widths).round(), widths.round())
    widths = np.clip(np.where(stream.uniform(count) < 0.25, 1, widths), 1, max_width).astype(np.int64)
    pods = np.minimum(-(-widths // fleet_size.per_node), fleet_size.nodes)
    units = np.where(pods > 1, fleet_size.per_node, widths)
    run = log_uniform(stream.uniform(count), _MINUTE, _DAY)
    walltimes = run * (2 + 3 * stream.uniform(count))
    return [_JobClass("hpc", np.arange(count), pods, units, run, walltimes)]


def _ai(stream: UniformStream, count: int, fleet_size: _FleetSize) -> list[_JobClass]:
    """Return training jobs on 1 to 1,024 whole nodes for half a day to ten days, and many small jobs.

    One job in twenty is a training job, on a power of two of nodes with one pod per node. The others have from one GPU
    to half of a node's GPUs, and run from five minutes to eight hours. As in the clusters of Jeon et al. (USENIX ATC
    2019) and Hu et al. (SC 2021), most jobs are small, and the few large ones use most of the GPU time. Walltimes are
    1.2 to 2 times the run time for training jobs, which know their number of steps, and 2 to 5 times for others.
    """
    training = stream.uniform(count) < 0.05
    large, small = np.flatnonzero(training), np.flatnonzero(~training)
    doublings = int(np.log2(min(fleet_size.nodes, 1024)))
    pods = 2 ** (stream.uniform(len(large)) * (doublings + 1)).astype(np.int64)
    days = log_uniform(stream.uniform(len(large)), _DAY / 2, 10 * _DAY)
    halvings = max(int(np.log2(fleet_size.per_node)), 1)
    units = 2 ** (stream.uniform(len(small)) * halvings).astype(np.int64)
    hours = log_uniform(stream.uniform(len(small)), 5 * _MINUTE, 8 * _HOUR)
    whole_nodes, single_pods = np.full(len(large), fleet_size.per_node), np.ones(len(small), np.int64)
    return [
        _JobClass("training", large, pods, whole_nodes, days, days * (1.2 + 0.8 * stream.uniform(len(large)))),
        _JobClass("small", small, single_pods, units, hours, hours * (2 + 3 * stream.uniform(len(small)))),
    ]


def _batch(stream: UniformStream, count: int, fleet_size: _FleetSize) -> list[_JobClass]:
    """Return many short jobs and a few long ones.

    Nine in ten have 1 to 8 pods and run for 10 s to 5 min. The others have up to 64 pods and run for up to 2 h. A few
    jobs account for most of the work, as in data centers (Reiss et al., SoCC 2012; Tirmazi et al., EuroSys 2020). A pod
    has one, two or four CPUs. Walltimes are 2 to 5 times the run time.
    """
    heavy = stream.uniform(count) < 0.1
    short, long = np.flatnonzero(~heavy), np.flatnonzero(heavy)
    job_classes: list[_JobClass] = []
    classes = (("short", short, 8, 10.0, 5 * _MINUTE), ("long", long, 64, 5 * _MINUTE, 2 * _HOUR))
    for name, at, pods, min_seconds, max_seconds in classes:
        units = np.minimum(2 ** (3 * stream.uniform(len(at))).astype(np.int64), fleet_size.per_node)
        max_pods = max(fleet_size.nodes * (fleet_size.per_node // int(units.max(initial=1))), 1)
        widths = np.clip(log_uniform(stream.uniform(len(at)), 1, pods + 1).astype(np.int64), 1, min(pods, max_pods))
        run = log_uniform(stream.uniform(len(at)), min_seconds, max_seconds)
        job_classes.append(_JobClass(name, at, widths, units, run, run * (2 + 3 * stream.uniform(len(at)))))
    return job_classes


MIXES = {
    "hpc": Mix(lambda: _nodes(1024, 64), CPU, _hpc),
    "ai": Mix(lambda: _nodes(1024, 128, 8), GPU, _ai),
    "batch": Mix(lambda: _nodes(128, 64), CPU, _batch),
}
"""Mixes by name."""
