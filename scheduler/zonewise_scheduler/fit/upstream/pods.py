"""Pods as the plugin sees them: requests, never limits, and the QoS class."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.upstream.inputs import InputError, Json, fields, items
from zonewise_scheduler.fit.upstream.resources import Amounts, is_native, read_amounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from zonewise_scheduler.fit.model.pod import Qos, Role

_COMPUTE = {"cpu", "memory"}
_CLASSES: tuple[Qos, ...] = ("Guaranteed", "Burstable", "BestEffort")


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
        return any(not is_native(name) for part in self.parts for name in part.requests)

    def effective_requests(self) -> Amounts:
        """Return requests of the pod as one (pkg/util/resource.go GetPodEffectiveRequest).

        A sidecar counts like an init container that ends, so that it is not added to the containers it runs beside.
        """
        total: Counter[str] = Counter()
        for part in self.parts:
            if part.role == "app":
                for name, amount in part.requests.items():
                    total[name] += amount
        for part in self.parts:
            if part.role != "app":
                for name, amount in part.requests.items():
                    total[name] = max(total.get(name, amount), amount)
        for name, amount in self.overhead.items():
            total[name] += amount
        return dict(total)


def read_plugin_pod(pod: Mapping[str, Any]) -> PluginPod:
    """Return a v1.Pod as the API server shows it, with requests filled in from limits.

    Raises InputError, naming field and value.
    """
    spec = fields(pod, "spec", "")
    found = list(_containers(spec))
    compute = [resources for _, resources in found] if spec.get("resources") is None else [_resources(spec, "spec.")]
    overhead = _amounts(spec, "overhead", "spec.")
    parts = tuple(Part(role, resources.requests) for role, resources in found)
    return PluginPod(_qos(pod, compute), parts, overhead)


class _Resources(NamedTuple):
    requests: Amounts
    limits: Amounts


def _containers(spec: Json) -> Iterator[tuple[Role, _Resources]]:
    for field in ("initContainers", "containers"):
        for number, container in enumerate(items(spec, field, "spec.")):
            yield _role(field, container), _resources(container, f"spec.{field}[{number}].")


def _resources(owner: Json, place: str) -> _Resources:
    given = fields(owner, "resources", place)
    return _Resources(*(_amounts(given, field, f"{place}resources.") for field in _Resources._fields))


def _amounts(resources: Json, field: str, place: str) -> Amounts:
    return read_amounts(fields(resources, field, place), place + field)


def _role(field: str, container: Json) -> Role:
    if field == "containers":
        return "app"
    return "sidecar" if container.get("restartPolicy") == "Always" else "init"


def _qos(pod: Mapping[str, Any], compute: list[_Resources]) -> Qos:
    """Return the class of the status, else what it will be (pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS)."""
    written = fields(pod, "status", "").get("qosClass")
    if not written:
        return _qos_of(compute)
    if written not in _CLASSES:
        raise InputError(f"status.qosClass: none of {', '.join(_CLASSES)}: {str(written)[:80]!r}")
    return written


def _qos_of(compute: list[_Resources]) -> Qos:
    requests: Counter[str] = Counter()
    limits: Counter[str] = Counter()
    limited = True
    for one in compute:
        most = _positive(one.limits)
        limited &= most.keys() >= _COMPUTE
        requests.update(_positive(one.requests))
        limits.update(most)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _positive(amounts: Amounts) -> Amounts:
    return {name: amount for name, amount in amounts.items() if name in _COMPUTE and amount > 0}
