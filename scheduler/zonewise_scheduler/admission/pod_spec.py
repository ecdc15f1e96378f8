"""Conversion of a v1.Pod or a pod template into a PodShape: everything that determines whether the pod fits a node.

Missing requests get the API server's defaults (pkg/apis/core/v1/defaults.go SetDefaults_Pod). So a template without
these defaults has the same shape as its pods. Claims for Dynamic Resource Allocation are ignored: they provide no hints
to the Topology Manager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in
from zonewise_common.k8s.podspec import containers
from zonewise_common.k8s.quantity import quantity_milli_value, quantity_value
from zonewise_common.k8s.tolerant import abbreviated
from zonewise_scheduler.admission.pod import Container, PodLevelResources, PodShape
from zonewise_scheduler.admission.pod_requests import aggregate_container_requests, default_pod_resources
from zonewise_scheduler.admission.qos import ComputeResources, compute_pod_qos, get_pod_qos
from zonewise_scheduler.admission.resource_names import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    is_compute,
    is_extended_resource_name,
    is_memory,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.k8s.podspec import Role
    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.admission.pod import Amounts


def read_pod(pod: Mapping[str, Any]) -> PodShape:
    """Return the shape of a pod.

    Raises FieldError, with the field and its value, for a pod that no API server would accept.
    """
    spec = object_in(pod, "spec", "")
    overhead = object_in(spec, "overhead", "spec.")
    parsed = [_container(role, container, path) for role, container, path in containers(spec)]
    if not spec.get("containers"):
        raise FieldError("spec.containers", "is missing")
    pod_level = None if spec.get("resources") is None else _pod_level(spec, parsed)
    return PodShape(
        tuple([each.container for each in parsed]),
        get_pod_qos(pod, [each.compute for each in parsed] if pod_level is None else [pod_level.compute]),
        None if pod_level is None else pod_level.resources,
        _amounts(overhead, overhead, "spec.overhead."),
    )


# --- containers


class _ParsedContainer(NamedTuple):
    """A container, and the facts that the pod's defaults depend on."""

    container: Container
    compute: ComputeResources
    requests_cpus: bool
    """Whether the container has a CPU request, which may be 0."""


def _container(role: Role, container: Json, path: str) -> _ParsedContainer:
    name = container.get("name")
    if not isinstance(name, str) or not name:
        raise FieldError(f"{path}name", f"not a name: {abbreviated(name)}")
    explicit, limits = _resources(container, path)
    requests = limits | explicit if limits else explicit
    requests_path, limits_path = f"{path}resources.requests.", f"{path}resources.limits."
    memory = _amounts(filter(is_memory, requests), requests, requests_path)
    milli_cpus = _amount(requests, CPU, requests_path)
    compute = ComputeResources(
        (milli_cpus, dict(memory).get(MEMORY, 0)),
        (_amount(limits, CPU, limits_path), _amount(limits, MEMORY, limits_path)),
    )
    shape = Container(
        name,
        role,
        milli_cpus,
        memory,
        _amounts(filter(is_extended_resource_name, limits), limits, limits_path),
        _amount(requests, EPHEMERAL_STORAGE, requests_path),
        complete=compute_pod_qos([compute]) == "Guaranteed",
    )
    return _ParsedContainer(shape, compute, CPU in requests)


def _resources(owner: Json, path: str) -> tuple[Json, Json]:
    """Return requests and limits as written, without defaults."""
    resources = object_in(owner, "resources", path)
    return object_in(resources, "requests", f"{path}resources."), object_in(resources, "limits", f"{path}resources.")


def _amounts(names: Iterable[str], quantities: Json, path: str) -> Amounts:
    return tuple([(name, _amount(quantities, name, path)) for name in sorted(names)])


def _amount(quantities: Json, name: str, path: str) -> int:
    """Return CPU in milli-CPU, and any other resource in its own unit; 0 if there is no quantity."""
    value = quantities.get(name)
    if value is None:
        return 0
    try:
        return quantity_milli_value(value) if name == CPU else quantity_value(value)
    except ValueError as error:
        raise FieldError(f"{path}{name}", str(error)) from None


# --- the pod as a whole


class _PodLevel(NamedTuple):
    """Pod-level resources with their defaults."""

    resources: PodLevelResources | None
    """None if the pod sets no resource that is allowed at the pod level (resourcehelper IsPodLevelResourcesSet)."""
    compute: ComputeResources


def _pod_level(spec: Json, parsed: list[_ParsedContainer]) -> _PodLevel:
    """Return the pod-level resources with their defaults."""
    explicit, limits = _resources(spec, "spec.")
    requests = dict(_amounts(filter(is_compute, explicit), explicit, "spec.resources.requests."))
    limits = dict(_amounts(filter(is_compute, limits), limits, "spec.resources.limits."))
    containers_peak = aggregate_container_requests((each.container.role, _compute(each)) for each in parsed)
    requests, limits = default_pod_resources(requests, limits, containers_peak)
    compute = ComputeResources(
        (requests.get(CPU, 0), requests.get(MEMORY, 0)), (limits.get(CPU, 0), limits.get(MEMORY, 0))
    )
    memory = tuple(sorted((name, size) for name, size in requests.items() if is_memory(name)))
    return _PodLevel(PodLevelResources(requests.get(CPU), memory) if requests else None, compute)


def _compute(parsed: _ParsedContainer) -> Amounts:
    cpus = ((CPU, parsed.container.milli_cpus),) if parsed.requests_cpus else ()
    return (*parsed.container.memory, *cpus)
