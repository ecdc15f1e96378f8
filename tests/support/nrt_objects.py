"""Short forms of the API objects that the plugin NodeResourceTopologyMatch reads."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

DEVICE = "example.com/nic"
ALLOCATABLE = ("cpu", "memory", "pods", "hugepages-2Mi", DEVICE)


def zone(number: int, amounts: dict[str, Any], costs: dict[int, int] | None = None) -> Json:
    """Return a zone with available amounts; capacity and allocatable do not matter."""
    resources = [
        {"name": name, "capacity": "0", "allocatable": "0", "available": str(size)} for name, size in amounts.items()
    ]
    cost_list = [{"name": f"node-{target}", "value": value} for target, value in (costs or {}).items()]
    return {"name": f"node-{number}", "type": "Node", "resources": resources, "costs": cost_list}


def nrt(zones: list[Json], policy: str = "single-numa-node", scope: str = "container", **attributes: str) -> Json:
    all_attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": scope} | attributes
    return {"attributes": [{"name": name, "value": value} for name, value in all_attributes.items()], "zones": zones}


def container(**resources: Any) -> Json:
    """Return a container with equal requests and limits; `nic`, `hugepages` and `storage` abbreviate longer names."""
    names = {"nic": DEVICE, "hugepages": "hugepages-2Mi", "storage": "ephemeral-storage"}
    amounts = {names.get(name, name): str(size) for name, size in resources.items()}
    return {"name": "c", "resources": {"requests": amounts, "limits": amounts}}


def guaranteed(cpu: int | str, **extra: Any) -> Json:
    """Return a container of a Guaranteed pod."""
    return container(cpu=cpu, memory=extra.pop("memory", "1Gi"), **extra)


def pod(*containers: Json, init: tuple[Json, ...] = (), **spec: Any) -> Json:
    return {"spec": {"initContainers": list(init), "containers": list(containers), **spec}}


def sidecar(container: Json) -> Json:
    """Return a container that starts first and continues to run."""
    return {**container, "restartPolicy": "Always"}


def zone_lists(counts: st.SearchStrategy[int]) -> st.SearchStrategy[list[Json]]:
    """Return a strategy for up to four zones with CPUs, ample memory and devices."""

    def zones(rows: list[tuple[int, int]]) -> list[Json]:
        return [zone(number, {"cpu": cpus, "memory": "64Gi", DEVICE: nics}) for number, (cpus, nics) in enumerate(rows)]

    return st.lists(st.tuples(counts, counts), min_size=1, max_size=4).map(zones)
