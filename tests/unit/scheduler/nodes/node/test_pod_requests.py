"""Requests of pods, compared with tables from k8s.io/component-helpers/resource and with plain sums."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.admission.node import Resource
from zonewise_scheduler.nodes.node.pod_requests import bound_pod_requests, pod_requests

GIB = 1 << 30


def container(name: str = "c", *, always: bool = False, limits: Any = None, **requests: str) -> Any:
    return with_requests(requests, name) | {
        "resources": {"requests": requests, "limits": limits or {}},
        **({"restartPolicy": "Always"} if always else {}),
    }


def with_requests(requests: dict[str, str], name: str = "c") -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests}}


def pod(*containers: Any, init: tuple[Any, ...] = (), **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}}


@pytest.mark.parametrize(
    ("pod_object", "expected"),
    [
        pytest.param(pod(container()), Resource(0, 0, 1, 0), id="nothing"),
        pytest.param(
            pod(container(cpu="1500m", memory="1Gi"), container("d", cpu="1")),
            Resource(2500, GIB, 1, 0),
            id="sum of containers",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container("i", cpu="3"), container("j", cpu="2"))),
            Resource(3000, 0, 1, 0),
            id="largest init container",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container("s", always=True, cpu="2"), container("i", cpu="3"))),
            Resource(5000, 0, 1, 0),
            id="an init container beside the sidecar before it",
        ),
        pytest.param(
            pod(container(cpu="1"), init=(container("i", cpu="3"), container("s", always=True, cpu="2"))),
            Resource(3000, 0, 1, 0),
            id="an init container before the sidecar",
        ),
        pytest.param(
            pod(container(cpu="4"), init=(container("s", always=True, cpu="2"),)),
            Resource(6000, 0, 1, 0),
            id="sidecar and app",
        ),
        pytest.param(pod(container(limits={"cpu": "2"})), Resource(2000, 0, 1, 0), id="requests default to limits"),
        pytest.param(
            pod(container(cpu="1"), overhead={"cpu": "250m", "memory": "1Gi"}), Resource(1250, GIB, 1, 0), id="overhead"
        ),
        pytest.param(
            pod(container(cpu="1"), resources={"requests": {"cpu": "3"}}, overhead={"cpu": "1"}),
            Resource(4000, 0, 1, 0),
            id="pod-level, and overhead",
        ),
        pytest.param(
            pod(container(cpu="1"), resources={"limits": {"cpu": "3", "memory": "1Gi"}}),
            Resource(1000, GIB, 1, 0),
            id="pod-level requests default to the containers', else to the limits",
        ),
        pytest.param(
            pod(with_requests({"hugepages-2Mi": "4Mi", "memory": "1Gi"}), resources={"requests": {"memory": "2Gi"}}),
            Resource(0, 2 * GIB, 1, 0, (("hugepages-2Mi", 4 << 20),)),
            id="pod-level hugepages default to the containers'",
        ),
        pytest.param(
            pod(with_requests({"nvidia.com/gpu": "8", "ephemeral-storage": "1Gi", "requests.x/y": "1", "gpus": "2"})),
            Resource(0, 0, 1, GIB, (("nvidia.com/gpu", 8),)),
            id="extended resources; names that the scheduler does not count",
        ),
        pytest.param(
            pod(with_requests({"deviceclass.resource.kubernetes.io/gpu": "1", "example.com/a": "0"})),
            Resource(0, 0, 1, 0),
            id="a device class, and a resource with amount 0",
        ),
        pytest.param(
            pod(container(memory="1500m"), container("d", memory="1500m")), Resource(0, 3, 1, 0), id="rounded up once"
        ),
    ],
)
def test_pod_requests(pod_object: dict[str, Any], expected: Resource) -> None:
    assert pod_requests(pod_object) == expected
    assert bound_pod_requests(pod_object) == expected


def resized(spec: str, actual: str, allocated: str, reason: str = "") -> dict[str, Any]:
    status = {"name": "c", "resources": {"requests": {"cpu": actual}}, "allocatedResources": {"cpu": allocated}}
    conditions = [{"type": "PodResizePending", "reason": reason}] if reason else []
    return pod(container(cpu=spec)) | {"status": {"containerStatuses": [status], "conditions": conditions}}


@pytest.mark.parametrize(
    ("pod_object", "expected"),
    [
        (resized("1", "2", "2"), 2000),
        (resized("4", "2", "2", "Deferred"), 4000),
        (resized("4", "2", "2", "Infeasible"), 2000),
        (resized("1", "2", "3", "Infeasible"), 3000),
    ],
)
def test_resized_container(pod_object: dict[str, Any], expected: int) -> None:
    assert bound_pod_requests(pod_object).milli_cpus == expected


def test_resized_pod() -> None:
    status = {"resources": {"requests": {"cpu": "5"}}, "allocatedResources": {"cpu": "6"}}
    pod_object = pod(container(cpu="1"), resources={"requests": {"cpu": "4"}})
    assert bound_pod_requests(pod_object | {"status": status}).milli_cpus == 6000
    assert pod_requests(pod_object | {"status": status}).milli_cpus == 4000


CPUS = st.lists(st.integers(0, 9000), max_size=4)


@given(CPUS, CPUS, CPUS)
def test_init_containers_and_sidecars(sidecars: list[int], init: list[int], apps: list[int]) -> None:
    """With sidecars first, the request is the highest sum of containers that run at once (KEP-753)."""
    init_containers = [container(always=True, cpu=f"{cpu}m") for cpu in sidecars] + [
        container(cpu=f"{cpu}m") for cpu in init
    ]
    pod_object = pod(*(container(cpu=f"{cpu}m") for cpu in apps), init=tuple(init_containers))
    peak = max(sum(sidecars) + cpu for cpu in [*init, sum(apps)])
    assert pod_requests(pod_object).milli_cpus == peak


@pytest.mark.parametrize(
    ("pod_object", "field"),
    [
        (pod(container(cpu="many")), "spec.containers[0].resources.requests.cpu"),
        ({"spec": {"containers": [{"name": "c", "resources": 3}]}}, "spec.containers[0].resources"),
        ({"spec": {"containers": 3}}, "spec.containers"),
        ({"spec": {"containers": [3]}}, "spec.containers[0]"),
        (pod(overhead={"cpu": []}), "spec.overhead.cpu"),
    ],
)
def test_error_names_the_field(pod_object: dict[str, Any], field: str) -> None:
    with pytest.raises(FieldError) as error:
        pod_requests(pod_object)
    assert error.value.field == field
