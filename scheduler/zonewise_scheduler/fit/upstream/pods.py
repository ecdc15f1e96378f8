"""Pods as the plugin sees them: requests, never limits, and the QoS class."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.model.fields import amounts, containers, part
from zonewise_scheduler.fit.model.qos import Compute, read_qos
from zonewise_scheduler.fit.model.resources import CPU, MEMORY, is_native

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from zonewise_scheduler.fit.model.fields import Json
    from zonewise_scheduler.fit.model.pod import Qos, Role
    from zonewise_scheduler.fit.upstream.resources import Amounts


class Part(NamedTuple):
    """A container."""

    role: Role
    requests: Amounts


class PluginPod(NamedTuple):
    """A pod."""

    qos: Qos
    parts: tuple[Part, ...]
    """Init containers and sidecars in their order, then the others in theirs."""
    overhead: Amounts

    def asks_for_devices(self) -> bool:
        """Tell whether it names any resource that is not native, if only with 0 (resourcerequests IncludeNonNative)."""
        return any(not is_native(name) for one in self.parts for name in one.requests)

    def effective_requests(self) -> Amounts:
        """Return requests of the pod as one (pkg/util/resource.go GetPodEffectiveRequest).

        A sidecar counts like an init container that ends, so that it is not added to the containers it runs beside.
        """
        total: Counter[str] = Counter()
        for one in self.parts:
            if one.role == "app":
                for name, amount in one.requests.items():
                    total[name] += amount
        for one in self.parts:
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
    spec = part(pod, "spec", "")
    found: list[tuple[Role, _Resources]] = [(role, _resources(one, at)) for role, one, at in containers(spec)]
    asked = [resources for _, resources in found] if spec.get("resources") is None else [_resources(spec, "spec.")]
    overhead = amounts(spec, "overhead", "spec.")
    qos = read_qos(pod, [Compute(_compute(one.requests), _compute(one.limits)) for one in asked])
    return PluginPod(qos, tuple(Part(role, resources.requests) for role, resources in found), overhead)


class _Resources(NamedTuple):
    requests: Amounts
    limits: Amounts


def _resources(owner: Json, at: str) -> _Resources:
    given = part(owner, "resources", at)
    return _Resources(*(amounts(given, field, f"{at}resources.") for field in _Resources._fields))


def _compute(found: Amounts) -> tuple[int, int]:
    return max(0, found.get(CPU, 0)), max(0, found.get(MEMORY, 0))
