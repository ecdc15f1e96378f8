"""Clusters of many layouts, and pods of many shapes: the axes of `benchmarks.fit_shapes`."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import cycle, islice, product
from typing import TYPE_CHECKING

from benchmarks.support.fit_cluster import GIB, NodeSpec, kind, states
from benchmarks.support.fit_nodes import processors
from zonewise_scheduler.admission.node import idle_node
from zonewise_scheduler.admission.pod import Container, PodShape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.node import NodeKind, NodeState

GPU, NIC, RDMA = "example.com/gpu", "example.com/nic", "example.com/rdma"
_RESOURCES = ((GPU, NIC, RDMA), (GPU, NIC), ())
_DISTANCES = (21, 20, 32, 12)


def cluster(count: int, layouts: int, policies: dict[str, object]) -> list[NodeState]:
    """Return nodes whose zones are each used at random, in equal parts of `layouts` layouts, all with these policies.

    Layouts differ in zones, cores, reserved cores, devices and distances. A single layout has eight zones.
    """
    if layouts == 1:
        kinds = [_with_policies(kind(NodeSpec(8, 16, 4, 120, 16, _RESOURCES[0])), policies)]
    else:
        kinds = [_with_policies(node_kind, policies) for node_kind in islice(_kinds(), layouts)]
    each = -(-count // layouts)
    nodes = [
        state for seed, node_kind in enumerate(kinds) for state in states(node_kind, _spec(node_kind), each, seed=seed)
    ]
    random.Random(1).shuffle(nodes)  # noqa: S311 -- no secret
    return nodes[:count]


def partly_idle(nodes: Sequence[NodeState]) -> list[NodeState]:
    """Return nodes of which a quarter remains as busy as before, and the others have increasingly many idle zones."""
    source = random.Random(1)  # noqa: S311 -- no secret
    return [_with_idle_zones(node, source, idle) for node, idle in zip(nodes, cycle((0, 0.5, 0.8, 1)), strict=False)]


def _with_idle_zones(state: NodeState, source: random.Random, share: float) -> NodeState:
    idle = idle_node(state.kind)
    memory, devices = list(state.memory_free), list(state.device_free)
    free, assigned = state.free_cpus, state.memory_assigned
    for index, (zone, cpus) in enumerate(state.kind.cpus.zones):
        if source.random() >= share:
            continue
        memory[index] = idle.memory_free[index]
        free, assigned = free | idle.free_cpus & cpus, assigned & ~(1 << zone)
        for number, device in enumerate(state.kind.devices):
            if device.zones == 1 << zone:
                devices[number] = idle.device_free[number]
    return state._replace(
        free_cpus=free, memory_free=tuple(memory), memory_assigned=assigned, device_free=tuple(devices)
    )


def _with_policies(node_kind: NodeKind, policies: dict[str, object]) -> NodeKind:
    return replace(node_kind, policies=node_kind.policies._replace(**policies))


def _kinds() -> Iterator[NodeKind]:
    """Yield kinds of nodes, each with a different layout; the first ones differ the most."""
    axes = product(range(1, 4), _DISTANCES, (16, 24, 32, 12, 20), zip(cycle(_RESOURCES), (8, 2, 4, 1), strict=False))
    for reserved, distance, cores, (resources, zones) in axes:
        spec = NodeSpec(zones, cores, 4, 120, 16, resources)
        node_kind = kind(spec)
        cpus = processors(zones, cores, reserved=range(reserved))
        distances = tuple(tuple(10 if a == b else distance for b in node_kind.zones) for a in node_kind.zones)
        yield replace(node_kind, cpus=cpus, distances=distances)


def _spec(node_kind: NodeKind) -> NodeSpec:
    resources = tuple(sorted({device.resource for device in node_kind.devices}))
    return NodeSpec(len(node_kind.zones), len(node_kind.cpus.cores) // len(node_kind.zones), 4, 120, 16, resources)


def shapes() -> dict[str, PodShape]:
    """Return pods by description; most nodes admit none of them at once."""
    main = _container("main", 4, 8)
    many = tuple(_container(f"c{number}", 2 + 2 * (number % 4), 8 + number) for number in range(10))
    inits = tuple(_container(f"i{number}", 2 + 2 * (number % 6), 4 + number, "init") for number in range(23))
    return {
        "one container": PodShape((main,), "Guaranteed"),
        "one container with devices": PodShape((_container("main", 4, 8, devices=1),), "Guaranteed"),
        "nothing fits": PodShape((_container("main", 30, 500),), "Guaranteed"),
        "3 that fit alone only": PodShape(tuple(_container(f"c{n}", 24, 96) for n in range(3)), "Guaranteed"),
        "10 containers": PodShape(many, "Guaranteed"),
        "10 that fit alone only": PodShape(tuple(_container(f"c{n}", 24, 100 + n) for n in range(10)), "Guaranteed"),
        "init container, 3 containers": PodShape((_container("i", 8, 16, "init"), *many[:3]), "Guaranteed"),
        "init container, 10 that fit alone only": PodShape(
            (_container("i", 8, 16, "init"), *(_container(f"c{n}", 24, 100 + n) for n in range(10))), "Guaranteed"
        ),
        "2 sidecars, init container, devices": PodShape(
            (_container("s", 2, 4, "sidecar"), _container("i", 8, 16, "init", 2), _container("t", 2, 4, "sidecar"),
             _container("main", 8, 32, devices=1)),
            "Guaranteed",
        ),
        "odd CPUs, 2 init containers": PodShape(
            (_container("i", 3, 16, "init"), _container("j", 5, 8, "init"), _container("a", 3, 16),
             _container("b", 5, 8)), "Guaranteed"
        ),
        "devices only": PodShape((Container("a", "app", 500, devices=((GPU, 4),)),) * 2, "Burstable"),
        "23 init containers": PodShape((*inits, main), "Guaranteed"),
        "24 containers": PodShape(
            tuple(_container(f"c{n}", 2 + 2 * (n % 3), 2 + n) for n in range(24)), "Guaranteed"
        ),
        "24 containers of every role, devices": PodShape(
            tuple(
                _container(f"c{n}", 2 + 2 * (n % 4), 2 + n, "sidecar" if n < 3 else "init" if n < 14 else "app", n % 3)
                for n in range(24)
            ), "Guaranteed"
        ),
        "24 that fit alone only": PodShape(tuple(_container(f"c{n}", 14, 60 + n) for n in range(24)), "Guaranteed"),
        "24 containers with devices only": PodShape(
            tuple(Container(f"c{n}", "app", 500, devices=((GPU, 1 + n % 2), (NIC, 1))) for n in range(24)), "Burstable"
        ),
        "3 on shared CPUs": _on_shared_cpus(3, 2),
        "24 on shared CPUs": _on_shared_cpus(24, 2),
        "24 on shared CPUs that fit alone only": _on_shared_cpus(24, 30),
        "2 wider than a zone": PodShape(tuple(_container(f"c{n}", 36, 130 + n) for n in range(2)), "Guaranteed"),
        "24, the first one wider than a zone": PodShape(
            (_container("w", 36, 130), *(_container(f"c{n}", 2, 2 + n) for n in range(23))), "Guaranteed"
        ),
        "5 wider than a zone": PodShape(tuple(_container(f"c{n}", 36, 130 + n) for n in range(5)), "Guaranteed"),
        "12 with devices, after one wider than a zone": PodShape(
            (_container("w", 36, 130, devices=2), *(_container(f"c{n}", 8, 60 + n, devices=1) for n in range(12))),
            "Guaranteed",
        ),
        "init container wider than a zone, 9 that fit alone only": PodShape(
            (_container("i", 36, 130, "init"), *(_container(f"c{n}", 24, 100 + n) for n in range(9))), "Guaranteed"
        ),
        "init container wider than a zone, 3 containers": PodShape(
            (_container("i", 36, 130, "init"), *many[:3]), "Guaranteed"
        ),
        "init container of much memory, 2 containers": PodShape(
            (_container("i", 8, 200, "init"), _container("a", 24, 100), _container("b", 24, 110)), "Guaranteed"
        ),
        "2 init containers, CPUs across zones": PodShape(
            (_container("i", 20, 8, "init"), _container("j", 40, 8, "init"), *many[:3]), "Guaranteed"
        ),
        "hugepages of an init container only": PodShape(
            (_container("i", 8, 16, "init"),
             *(Container(f"c{n}", "app", 22000, (("memory", 90 * GIB),)) for n in range(2))), "Guaranteed"
        ),
        "3 containers, one with no devices": PodShape(
            (Container("z", "app", 22000, (("memory", 90 * GIB),), ((GPU, 0),)), *many[:2]), "Guaranteed"
        ),
        "3 containers, no devices of any sort": PodShape(
            tuple(_container(f"c{n}", 22, 90 + n)._replace(devices=((GPU, 0), (NIC, 0), (RDMA, 0))) for n in range(3)),
            "Guaranteed",
        ),
        "2 on shared CPUs, of much memory": _on_shared_cpus(2, 190),
        "6 on shared CPUs, of much memory": _on_shared_cpus(6, 130),
        "10 on shared CPUs, pages of an init container": PodShape(
            (_container("i", 0, 3, "init")._replace(milli_cpus=500), *_on_shared_cpus(9, 40).containers), "Guaranteed"
        ),
        "3 of much memory": PodShape(tuple(_container(f"c{n}", 2, 140 + n) for n in range(3)), "Guaranteed"),
        "800 init containers": PodShape(
            (*(_container(f"i{n}", 2 + 2 * (n % 6), 4 + n % 7, "init") for n in range(800)), main), "Guaranteed"
        ),
        "3,000 init containers": PodShape(
            (*(_container(f"i{n}", 2 + 2 * (n % 6), 4 + n % 7, "init") for n in range(3000)), main), "Guaranteed"
        ),
    }  # fmt: skip


def _on_shared_cpus(count: int, gib: int) -> PodShape:
    """Return a pod for which only memory is aligned."""
    memory = [gib + number % 7 for number in range(count)]
    apps = (Container(f"c{n}", "app", 500, (("memory", size * GIB),)) for n, size in enumerate(memory))
    return PodShape(tuple(apps), "Guaranteed")


def _container(name: str, cpus: int, memory: int, role: Role = "app", devices: int = 0) -> Container:
    amounts = (("hugepages-1Gi", GIB), ("memory", memory * GIB))
    return Container(name, role, cpus * 1000, amounts, ((GPU, devices),) if devices else ())
