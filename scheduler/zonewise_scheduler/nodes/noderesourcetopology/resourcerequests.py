"""Pods as the plugin sees them: requests without limits, and the QoS class."""

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

    from zonewise_common.k8s.podspec import Role
    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.admission.pod import Qos
    from zonewise_scheduler.nodes.noderesourcetopology.numaresources import Amounts


class ContainerRequests(NamedTuple):
    """A container and its requests."""

    role: Role
    requests: Amounts


class PluginPod(NamedTuple):
    """A pod as the plugin sees it."""

    qos: Qos
    containers: tuple[ContainerRequests, ...]
    """Init containers and sidecars in their order, then the app containers in theirs."""
    overhead: Amounts

    def include_non_native(self) -> bool:
        """Return whether the pod names a non-native resource, even with 0 (resourcerequests IncludeNonNative)."""
        return any(not is_native_resource(name) for container in self.containers for name in container.requests)

    def effective_requests(self) -> Amounts:
        """Return the requests of the whole pod (pkg/util/resource.go GetPodEffectiveRequest).

        A sidecar counts like an init container that ends, so it is not added to the containers that run at the same
        time.
        """
        total: Counter[str] = Counter()
        for container in self.containers:
            if container.role == "app":
                for name, amount in container.requests.items():
                    total[name] += amount
        for container in self.containers:
            if container.role != "app":
                for name, amount in container.requests.items():
                    total[name] = max(total.get(name, amount), amount)
        for name, amount in self.overhead.items():
            total[name] += amount
        return dict(total)


def read_plugin_pod(pod: Mapping[str, Any]) -> PluginPod:
    """Return a v1.Pod as the API server shows it, with requests filled in from limits.

    Raises FieldError, which names field and value.
    """
    spec = object_in(pod, "spec", "")
    owners: list[tuple[Role, _RequestsAndLimits]] = [
        (role, _requests_and_limits(owner, path)) for role, owner, path in containers(spec)
    ]
    counted = (
        [resources for _, resources in owners]
        if spec.get("resources") is None
        else [_requests_and_limits(spec, "spec.")]
    )
    overhead = quantities_in(spec, "overhead", "spec.")
    qos = get_pod_qos(pod, [ComputeResources(_compute(owner.requests), _compute(owner.limits)) for owner in counted])
    return PluginPod(qos, tuple(ContainerRequests(role, resources.requests) for role, resources in owners), overhead)


class _RequestsAndLimits(NamedTuple):
    requests: Amounts
    limits: Amounts


def _requests_and_limits(owner: Json, path: str) -> _RequestsAndLimits:
    resources = object_in(owner, "resources", path)
    return _RequestsAndLimits(
        *(quantities_in(resources, field, f"{path}resources.") for field in _RequestsAndLimits._fields)
    )


def _compute(amounts: Amounts) -> tuple[int, int]:
    return max(0, amounts.get(CPU, 0)), max(0, amounts.get(MEMORY, 0))
