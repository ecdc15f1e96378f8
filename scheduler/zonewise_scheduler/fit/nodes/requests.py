"""What a pod requests of a node as a whole, as NodeResourcesFit counts it.

k8s.io/component-helpers/resource/helpers.go PodRequests; pkg/scheduler/framework/types.go Resource. Quantities are
added in thousandths of their unit and rounded up once. Requests are defaulted as the API server does for pods
(pkg/apis/core/v1/defaults.go SetDefaults_Pod), so that a template counts as its pods will.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_scheduler.fit.model.node import Room
from zonewise_scheduler.fit.nodes.fields import amounts, part, parts, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from zonewise_scheduler.fit.nodes.fields import Json

Sums = dict[str, int]
"""Thousandths of the unit, by resource."""

NOTHING = Room(0, 0, 0, 0)

DEVICE_CLASS = "deviceclass.resource.kubernetes.io/"
"""Resources that are a DeviceClass by name (pkg/apis/resource ResourceDeviceClassPrefix) are not the node's to give."""


class Container(NamedTuple):
    """One container's requests."""

    role: str
    """"init", "sidecar" (an init container with restartPolicy Always) or "app"."""
    requests: Sums


def pod_requests(pod: Mapping[str, Any]) -> Room:
    """Return what a pod, or a template of one, that is yet to be placed requests; `pods` is 1.

    Raises FieldError, naming field and value, for what is no quantity.
    """
    return _room(_requests(part(pod, "spec", ""), {}))


def held_requests(pod: Mapping[str, Any]) -> Room:
    """Return what a pod on a node counts for: where it is resized in place, the most of what it asks for and has.

    Raises FieldError, as pod_requests. helpers.go determineEffectiveRequests; the gates InPlacePodVerticalScaling (on
    since 1.33) and InPlacePodLevelResourcesVerticalScaling (on since 1.36) are taken to be on.
    """
    return _room(_requests(part(pod, "spec", ""), part(pod, "status", "")))


def room_of(thousandths: Sums, pods: int) -> Room:
    """Return a Resource: what is no resource that schedulers count is left out (util/utils.go IsScalarResourceName)."""
    sizes = {name: -(-amount // 1000) for name, amount in thousandths.items() if name != "cpu"}
    others = tuple(sorted((name, size) for name, size in sizes.items() if size and is_scalar(name)))
    return Room(thousandths.get("cpu", 0), sizes.get("memory", 0), pods, sizes.get("ephemeral-storage", 0), others)


def is_scalar(name: str) -> bool:
    """Tell whether a resource is extended, hugepages, of kubernetes.io, or of attachable volumes."""
    extended = "/" in name and not name.startswith("requests.")
    return extended or "kubernetes.io/" in name or name.startswith(("hugepages-", "attachable-volumes-"))


def _room(thousandths: Sums) -> Room:
    counted = {name: amount for name, amount in thousandths.items() if not name.startswith(DEVICE_CLASS)}
    return room_of(counted, 1)


# --- a pod


def _requests(spec: Json, status: Json) -> Sums:
    sums = together(containers_of(spec, status))
    own = _pod_level(spec, sums)
    if own and status.get("resources") is not None:
        resources = part(status, "resources", "status.")
        had = (amounts(resources, "requests", "status.resources."), amounts(status, "allocatedResources", "status."))
        effective = _effective(status, own, *had)
        own = {name: effective.get(name, 0) for name in own}
    sums |= own
    for name, amount in amounts(spec, "overhead", "spec.").items():
        sums[name] = sums.get(name, 0) + amount
    return sums


def together(containers: Iterator[Container]) -> Sums:
    """Return what containers request together: init containers run one by one, beside the sidecars before them.

    helpers.go AggregateContainerRequests; KEP-753.
    """
    lasting: Sums = {}
    sidecars: Sums = {}
    peak: Sums = {}
    for role, requests in containers:
        for name, amount in requests.items():
            if role == "init":
                peak[name] = max(peak.get(name, 0), sidecars.get(name, 0) + amount)
                continue
            lasting[name] = lasting.get(name, 0) + amount
            if role == "sidecar":
                sidecars[name] = sidecars.get(name, 0) + amount
    return {name: max(lasting.get(name, 0), peak.get(name, 0)) for name in lasting | peak}


def containers_of(spec: Json, status: Json) -> Iterator[Container]:
    """Yield the containers' requests, those of init containers first; by what they have, where a status tells."""
    had = {
        text(one, "name", "status."): one
        for kind in ("containerStatuses", "initContainerStatuses")
        for one in parts(status, kind, "status.")
    }
    for kind in ("initContainers", "containers"):
        for place, one in enumerate(parts(spec, kind, "spec.")):
            at = f"spec.{kind}[{place}]."
            resources = part(one, "resources", at)
            limits, requests = (amounts(resources, name, f"{at}resources.") for name in ("limits", "requests"))
            requests = limits | requests
            role = "app" if kind == "containers" else _role(one)
            found = had.get(text(one, "name", at))
            if found is not None and role != "init" and found.get("resources") is not None:
                actual = amounts(part(found, "resources", "status."), "requests", "status.resources.")
                requests = _effective(status, requests, actual, amounts(found, "allocatedResources", "status."))
            yield Container(role, requests)


def _role(one: Json) -> str:
    return "sidecar" if one.get("restartPolicy") == "Always" else "init"


def _pod_level(spec: Json, sums: Sums) -> Sums:
    """Return the pod's own requests of CPUs, memory and hugepages (KEP-2837), with their defaults.

    defaults.go defaultHugePagePodLimits and defaultPodRequests: CPUs and memory default to what the containers request
    together, else to the limit; hugepages to their limit, which defaults to the containers'.
    """
    resources = part(spec, "resources", "spec.")
    requests, limits = (
        {name: amount for name, amount in amounts(resources, kind, "spec.resources.").items() if _of_pods(name)}
        for kind in ("requests", "limits")
    )
    if not requests and not limits:
        return {}
    huge = {name: amount for name, amount in sums.items() if name.startswith("hugepages-") and name not in requests}
    limits = huge | limits
    if limits:
        shared = {name: sums[name] for name in ("cpu", "memory") if name in sums}
        requests = limits | shared | requests
    return requests


def _of_pods(name: str) -> bool:
    return name in {"cpu", "memory"} or name.startswith("hugepages-")


def _effective(status: Json, asked: Sums, actual: Sums, allocated: Sums) -> Sums:
    """Return the most of each, without what is asked for where the kubelet has said that it never can."""
    conditions = parts(status, "conditions", "status.")
    pending = [one.get("reason") for one in conditions if one.get("type") == "PodResizePending"]
    found = {} if pending[:1] == ["Infeasible"] else dict(asked)
    for amount_by_name in (actual, allocated):
        for name, amount in amount_by_name.items():
            found[name] = max(found.get(name, amount), amount)
    return found
