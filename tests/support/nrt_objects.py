"""Objects of the API as the upstream scheduler plugin is given them, in few words."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

DEVICE = "example.com/nic"
ALLOCATABLE = ("cpu", "memory", "pods", "hugepages-2Mi", DEVICE)


def zone(number: int, amounts: dict[str, Any], costs: dict[int, int] | None = None) -> Json:
    """A zone with what is available; capacity and allocatable are of no account."""
    resources = [
        {"name": name, "capacity": "0", "allocatable": "0", "available": str(size)} for name, size in amounts.items()
    ]
    near = [{"name": f"node-{other}", "value": value} for other, value in (costs or {}).items()]
    return {"name": f"node-{number}", "type": "Node", "resources": resources, "costs": near}


def nrt(zones: list[Json], policy: str = "single-numa-node", scope: str = "container", **attributes: str) -> Json:
    """A NodeResourceTopology."""
    named = {"topologyManagerPolicy": policy, "topologyManagerScope": scope} | attributes
    return {"attributes": [{"name": name, "value": value} for name, value in named.items()], "zones": zones}


def container(**resources: Any) -> Json:
    """A container whose requests are its limits; `nic` and `hugepages` for the names that are none in Python."""
    names = {"nic": DEVICE, "hugepages": "hugepages-2Mi", "storage": "ephemeral-storage"}
    amounts = {names.get(name, name): str(size) for name, size in resources.items()}
    return {"name": "c", "resources": {"requests": amounts, "limits": amounts}}


def guaranteed(cpu: int | str, **others: Any) -> Json:
    """A container as those of Guaranteed pods."""
    return container(cpu=cpu, memory=others.pop("memory", "1Gi"), **others)


def pod(*containers: Json, init: tuple[Json, ...] = (), **spec: Any) -> Json:
    """A pod."""
    return {"spec": {"initContainers": list(init), "containers": list(containers), **spec}}


def sidecar(of: Json) -> Json:
    """A container that starts first and stays."""
    return {**of, "restartPolicy": "Always"}


def zones_of(counts: st.SearchStrategy[int], most: int = 4) -> st.SearchStrategy[list[Json]]:
    """Zones 0 to n with CPUs, much memory and devices."""

    def made(rows: list[tuple[int, int]]) -> list[Json]:
        return [zone(number, {"cpu": cpus, "memory": "64Gi", DEVICE: nics}) for number, (cpus, nics) in enumerate(rows)]

    return st.lists(st.tuples(counts, counts), min_size=1, max_size=most).map(made)
