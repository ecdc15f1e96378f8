"""A v1.Pod, or a template of one, to what of it decides about its fit to a node.

Requests are defaulted as the API server does (pkg/apis/core/v1/defaults.go SetDefaults_Pod), so that a template that no
API server has seen gives the same shape as its pods. Claims of Dynamic Resource Allocation are left out: they give no
hints to the Topology Manager.
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
    """Return the shape of a pod; raise FieldError, naming field and value, for one that no API server would take."""
    spec = object_in(pod, "spec", "")
    overhead = object_in(spec, "overhead", "spec.")
    asked = [_container(role, one, at) for role, one, at in containers(spec)]
    if not spec.get("containers"):
        raise FieldError("spec.containers", "there is none")
    own = None if spec.get("resources") is None else _own(spec, asked)
    return PodShape(
        tuple([one.container for one in asked]),
        get_pod_qos(pod, [one.compute for one in asked] if own is None else [own.compute]),
        None if own is None else own.level,
        _amounts(overhead, overhead, "spec.overhead."),
    )


# --- containers


class _Asked(NamedTuple):
    """What a container asks for."""

    container: Container
    compute: ComputeResources
    cpus: bool
    """It has a request of CPUs, if of 0."""


def _container(role: Role, one: Json, at: str) -> _Asked:
    name = one.get("name")
    if not isinstance(name, str) or not name:
        raise FieldError(f"{at}name", f"not a name: {abbreviated(name)}")
    given, limits = _resources(one, at)
    requests = limits | given if limits else given
    asked, most = f"{at}resources.requests.", f"{at}resources.limits."
    memory = _amounts(filter(is_memory, requests), requests, asked)
    milli_cpus = _amount(requests, CPU, asked)
    compute = ComputeResources(
        (milli_cpus, dict(memory).get(MEMORY, 0)), (_amount(limits, CPU, most), _amount(limits, MEMORY, most))
    )
    made = Container(
        name,
        role,
        milli_cpus,
        memory,
        _amounts(filter(is_extended_resource_name, limits), limits, most),
        _amount(requests, EPHEMERAL_STORAGE, asked),
        complete=compute_pod_qos([compute]) == "Guaranteed",
    )
    return _Asked(made, compute, CPU in requests)


def _resources(owner: Json, at: str) -> tuple[Json, Json]:
    """Return requests and limits as they are given."""
    given = object_in(owner, "resources", at)
    return object_in(given, "requests", f"{at}resources."), object_in(given, "limits", f"{at}resources.")


def _amounts(names: Iterable[str], given: Json, at: str) -> Amounts:
    return tuple([(name, _amount(given, name, at)) for name in sorted(names)])


def _amount(given: Json, name: str, at: str) -> int:
    """Return milli-CPU of CPUs, the unit of everything else; 0 where nothing is said."""
    value = given.get(name)
    if value is None:
        return 0
    try:
        return quantity_milli_value(value) if name == CPU else quantity_value(value)
    except ValueError as error:
        raise FieldError(f"{at}{name}", str(error)) from None


# --- the pod as a whole


class _Own(NamedTuple):
    """What a pod asks for as a whole."""

    level: PodLevelResources | None
    """None where it is nothing of a kind that a pod can have (resourcehelper IsPodLevelResourcesSet)."""
    compute: ComputeResources


def _own(spec: Json, asked: list[_Asked]) -> _Own:
    """Return the pod's own requests with their defaults."""
    given, limits = _resources(spec, "spec.")
    requests = dict(_amounts(filter(is_compute, given), given, "spec.resources.requests."))
    limits = dict(_amounts(filter(is_compute, limits), limits, "spec.resources.limits."))
    own, most = default_pod_resources(
        requests, limits, aggregate_container_requests((one.container.role, _compute(one)) for one in asked)
    )
    compute = ComputeResources((own.get(CPU, 0), own.get(MEMORY, 0)), (most.get(CPU, 0), most.get(MEMORY, 0)))
    memory = tuple(sorted((name, size) for name, size in own.items() if name != CPU))
    return _Own(PodLevelResources(own.get(CPU), memory) if own else None, compute)


def _compute(one: _Asked) -> Amounts:
    return (*one.container.memory, *(((CPU, one.container.milli_cpus),) if one.cpus else ()))
