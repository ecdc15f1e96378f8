"""Converts pods of the API for admission by a simulated kubelet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.podspec import containers
from zonewise_common.k8s.quantity import quantity_milli_value
from zonewise_sandbox.kubelet.types import ContainerSpec, PodSpec

if TYPE_CHECKING:
    from zonewise_sandbox.podrunner.types import RunnerPod

_MEMORY = "memory"
_HUGEPAGES = "hugepages-"


def pod_spec(pod: RunnerPod) -> PodSpec:
    """Return the requests of a pod's containers, without init containers that end. Raises FieldError."""
    specs = tuple(_container(container) for role, container, _ in containers(pod.spec) if role != "init")
    return PodSpec(
        pod.metadata.namespace,
        pod.metadata.name,
        specs,
        pod.metadata.uid,
        pod.status.qos_class == "Guaranteed",
        pod.metadata.labels,
    )


def _container(container: dict[str, Any]) -> ContainerSpec:
    resources: dict[str, Any] = container.get("resources") or {}
    requests: dict[str, str] = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    amounts = {name: quantity_milli_value(value) for name, value in requests.items()}
    memory = {
        name: amount // 1000
        for name, amount in amounts.items()
        if amount and (name == _MEMORY or name.startswith(_HUGEPAGES))
    }
    devices = {name: amount // 1000 for name, amount in amounts.items() if "/" in name and amount}
    return ContainerSpec(container["name"], amounts.get("cpu", 0), memory, devices)
