"""Pods as the plugin sees them: requests, never limits, and the QoS class."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import object_in, quantities_in
from zonewise_common.k8s.podspec import containers
from zonewise_scheduler.admission.qos import ComputeResources, get_pod_qos
from zonewise_scheduler.admission.resource_names import CPU, MEMORY, is_native_resource

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zonewise_common.k8s.fields import Json
    from zonewise_common.k8s.podspec import Role
    from zonewise_scheduler.admission.pod import Qos
    from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts


class ContainerRequests(NamedTuple):
    """A container."""

    role: Role
    requests: Amounts


class PluginPod(NamedTuple):
    """A pod."""

    qos: Qos
    containers: tuple[ContainerRequests, ...]
    """Init containers and sidecars in their order, then the others in theirs."""
    overhead: Amounts

    def include_non_native(self) -> bool:
        """Tell whether it names any resource that is not native, if only with 0 (resourcerequests IncludeNonNative)."""
        return any(not is_native_resource(name) for one in self.containers for name in one.requests)

    def effective_requests(self) -> Amounts:
        """Return requests of the pod as one (pkg/util/resource.go GetPodEffectiveRequest).

        A sidecar counts like an init container that ends, so that it is not added to the containers it runs beside.
        """
        total: Counter[str] = Counter()
        for one in self.containers:
            if one.role == "app":
                for name, amount in one.requests.items():
                    total[name] += amount
        for one in self.containers:
            if one.role != "app":
                for name, amount in one.requests.items():
                    total[name] = max(total.get(name, amount), amount)
        for name, amount in self.overhead.items():
            total[name] += amount
        return dict(total)


def read_plugin_pod(pod: Mapping[str, Any]) -> PluginPod:
    """Return a v1.Pod as the API server shows it, with requests filled in from limits.

    Raises FieldError, naming field and value.
    """
    spec = object_in(pod, "spec", "")
    found: list[tuple[Role, _Resources]] = [(role, _resources(one, at)) for role, one, at in containers(spec)]
    asked = [resources for _, resources in found] if spec.get("resources") is None else [_resources(spec, "spec.")]
    overhead = quantities_in(spec, "overhead", "spec.")
    qos = get_pod_qos(pod, [ComputeResources(_compute(one.requests), _compute(one.limits)) for one in asked])
    return PluginPod(qos, tuple(ContainerRequests(role, resources.requests) for role, resources in found), overhead)


class _Resources(NamedTuple):
    requests: Amounts
    limits: Amounts


def _resources(owner: Json, at: str) -> _Resources:
    given = object_in(owner, "resources", at)
    return _Resources(*(quantities_in(given, field, f"{at}resources.") for field in _Resources._fields))


def _compute(found: Amounts) -> tuple[int, int]:
    return max(0, found.get(CPU, 0)), max(0, found.get(MEMORY, 0))
