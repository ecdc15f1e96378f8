"""Damaged NodeResourceTopology objects: those of the agent for several machines, mutated by a seeded generator."""

from __future__ import annotations

import copy
import json
import random
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from support.fit_nodes import GPU, NIC, container, pod
from support.kubelet_reports import CONFIG, make_allocatable, make_node
from support.machines import gpu_server, grace_blackwell, tiered_memory
from zonewise.kubelet.types import ContainerDevices, KubeletConfig, KubeletReport
from zonewise.objects.nrt import machine_to_nrt
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage
from zonewise_common.nrt import names

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.machine.model.machine import Machine
    from zonewise_scheduler.admission.pod import PodShape

Json = dict[str, Any]

_OPTIONS = (
    "distribute-cpus-across-numa=true", "full-pcpus-only=true", "align-by-socket=true",
    "distribute-cpus-across-cores=true", "prefer-align-cpus-by-uncorecache=true,full-pcpus-only=true",
    "distribute-cpus-across-numa=true,full-pcpus-only=true",
)  # fmt: skip
_TEXTS = (
    "", "0", "-1", "x", "0-3", "0-1023", "0-65535", "0,1", "1,0", "0,9", "0+1", "63", "64", "1023", "9" * 400, "0-7*3",
    "0/1", "true", "18446744073709551616", "9223372036854775807", "1e300", "1Ei", "0.5", "a=1/1/1", "r@0+1=4/4/4",
    "r@-1=2/2/2", f"{NIC}@0=1", f"{NIC}@0+1=1,memory@1=1Gi",
    "none", "best-effort", "restricted", "single-numa-node", "static", "Static", "pod", "\x00", "\ud7ff", "=" * 300,
    f"{GPU}@9=3/3/3", f"{GPU}@0+1=4/4/4", f"{GPU}=0/0/0", "100", "1,2,3,4,5", *_OPTIONS,
)  # fmt: skip
_VALUES: tuple[Any, ...] = (
    None, True, 0, -1, 3, 1.5, float("inf"), [], {}, [[]], {"name": "node-0"}, 1 << 70, [None], *_TEXTS
)  # fmt: skip
_DECISIVE = (
    names.TOPOLOGY_MANAGER_POLICY, names.TOPOLOGY_MANAGER_SCOPE, names.TOPOLOGY_MANAGER_OPTIONS,
    names.TOPOLOGY_MANAGER_MAX_NUMA_NODES, names.CPU_MANAGER_POLICY, names.CPU_MANAGER_OPTIONS,
    names.MEMORY_MANAGER_POLICY, names.RESERVED_CPUS, names.THREADS_PER_CORE, names.EMPTY_ZONES, names.UNZONED_DEVICES,
    names.ABSENT_ZONE_DEVICES, names.SHARED_DEVICES, names.MEMORY_ASSIGNED, names.USAGE, names.FEATURE_GATES,
    names.EXCLUDED, names.HOLDINGS,
)  # fmt: skip
_OF_A_ZONE = (names.CPUS, names.CORES, names.FREE_CPUS, names.MEMORY_GROUP, names.AMOUNTS)


def pods() -> tuple[PodShape, ...]:
    """Return a few pod shapes: CPUs and memory of one or many zones, devices, hugepages, init containers."""
    return (
        pod(container(cpus=2, gib=1)),
        pod(container(cpus=12, gib=24, devices={GPU: 2, NIC: 1})),
        pod(container("i0", 4, 2, {GPU: 1}, role="init"), container("c0", 1, 1), container("c1", 3, 2, pages=1)),
        pod(container(devices={GPU: 1}), qos="BestEffort"),
    )


@cache
def base_reports() -> tuple[str, ...]:
    """Return the agent's objects as JSON: 2, 4, 8 and 16 zones, GPUs, memory tiers, and the 36 zones of a GB200."""
    machines = [make_node((0, 1)), make_node(tuple(range(4))), make_node(tuple(range(8))), make_node(tuple(range(16)))]
    machines += [make_node((0, 8)), gpu_server(), tiered_memory(), grace_blackwell()]
    policies = ("restricted", "best-effort", "single-numa-node", "none")
    return tuple(
        json.dumps(_published(machine, CONFIG._replace(topology_manager_policy=policy)))
        for machine in machines
        for policy in policies
    )


def _published(machine: Machine, config: KubeletConfig) -> Json:
    options = (*config.topology_manager_options, ("max-allowable-numa-nodes", "64"))
    config = config._replace(topology_manager_options=options)
    zones = sorted(zone.id for zone in machine.zones if zone.cpus)
    devices = tuple(
        ContainerDevices(resource, (f"{resource}{zone}a", f"{resource}{zone}b"), (zone,))
        for resource in (GPU, NIC)
        for zone in zones
    )
    devices += (ContainerDevices(NIC, ("shared",), tuple(zones[:2])), ContainerDevices(NIC, ("none",)))
    report = KubeletReport((), make_allocatable(machine, devices), config)
    usage = node_usage(machine, report)
    assert isinstance(usage, Usage)
    nrt = machine_to_nrt(machine, "n", usage, report.config)
    nrt["metadata"] = {"name": "n", "resourceVersion": "17"}
    return nrt


def mutated(seed: int) -> Json:
    """Return the object of a seed, with one to six mutations."""
    source = random.Random(seed)
    nrt: Json = json.loads(base_reports()[seed % len(base_reports())])
    for _ in range(source.choice([1, 1, 1, 2, 3, 6])):
        source.choice(_MUTATIONS)(nrt, source)
    return nrt


def _any_field(nrt: Json, source: random.Random) -> None:
    owner: Any = nrt
    while True:
        keys = _keys(owner)
        if not keys:
            return
        key = source.choice(keys)
        if not _keys(owner[key]) or source.random() < 0.15:
            break
        owner = owner[key]
    if source.random() < 0.15:
        del owner[key]
    else:
        owner[key] = copy.deepcopy(source.choice(_VALUES))


def _keys(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(cast("Json", value))
    return list(range(len(cast("list[Any]", value)))) if isinstance(value, list) else []


def _attribute_of_the_node(nrt: Json, source: random.Random) -> None:
    _set(nrt, source.choice(_DECISIVE), source.choice(_TEXTS))


def _attribute_of_a_zone(nrt: Json, source: random.Random) -> None:
    if zones := _zones(nrt):
        _set(source.choice(zones), source.choice(_OF_A_ZONE), source.choice(_TEXTS))


def _quantity(nrt: Json, source: random.Random) -> None:
    for zone in source.sample(zones, min(len(zones), 3)) if (zones := _zones(nrt)) else []:
        for resource in _objects(zone.get("resources")):
            resource[source.choice(["capacity", "allocatable", "available"])] = source.choice(_VALUES)


def _more_zones(nrt: Json, source: random.Random) -> None:
    """Repeat a zone under other ids until the object has more zones than any machine."""
    if not (zones := _zones(nrt)):
        return
    model = source.choice(zones)
    first = source.choice([0, 2, 8, 30, 60])
    for number in range(first, first + source.choice([1, 5, 12, 16, 30, 100, 900])):
        zone = copy.deepcopy(model)
        zone["name"] = f"node-{number}"
        if source.random() < 0.5:
            _set(zone, names.CPUS, f"{8 * number}-{8 * number + 7}")
            _set(zone, names.FREE_CPUS, f"{8 * number}-{8 * number + 7}")
            _set(zone, names.MEMORY_GROUP, source.choice([str(number), f"{number},{number + 1}", "0,1"]))
        nrt["zones"].append(zone)


def _fewer_zones(nrt: Json, source: random.Random) -> None:
    if isinstance(nrt.get("zones"), list) and nrt["zones"]:
        nrt["zones"] = source.sample(nrt["zones"], source.randint(0, len(nrt["zones"]) - 1))


def _other_ids(nrt: Json, source: random.Random) -> None:
    for zone in _zones(nrt):
        zone["name"] = (
            f"{source.choice(['node', 'memory', 'cpu', 'device'])}-{source.choice([0, 1, 2, 5, 63, 64, 255])}"
        )


def _without_cpus(nrt: Json, source: random.Random) -> None:
    for zone in _zones(nrt):
        if source.random() < 0.6:
            _set(zone, names.CPUS, "")
            _set(zone, names.FREE_CPUS, source.choice(["", "0-7"]))


def _foreign(nrt: Json, _: random.Random) -> None:
    """Keep only what other agents report."""
    nrt["attributes"] = [item for item in _items(nrt) if not str(item.get("name")).startswith("zonewise.dev/")]


def _set(owner: Json, name: str, value: str) -> None:
    owner["attributes"] = [item for item in _items(owner) if item.get("name") != name] + [
        {"name": name, "value": value}
    ]


def _items(owner: Json) -> list[Json]:
    return _objects(owner.get("attributes"))


def _zones(nrt: Json) -> list[Json]:
    return _objects(nrt.get("zones"))


def _objects(value: Any) -> list[Json]:
    return [item for item in cast("list[Any]", value) if isinstance(item, dict)] if isinstance(value, list) else []


_MUTATIONS: tuple[Callable[[Json, random.Random], None], ...] = (
    _any_field, _any_field, _attribute_of_the_node, _attribute_of_the_node, _attribute_of_a_zone, _attribute_of_a_zone,
    _quantity, _more_zones, _fewer_zones, _other_ids, _without_cpus, _foreign,
)  # fmt: skip
