"""Defaults that the API server adds to the pods of a job, and that the job's template does not show.

| plugin of the API server | what it adds |
|---|---|
| RuntimeClass | the overhead of the pod's RuntimeClass, and its node selector and tolerations |
| LimitRanger | requests and limits that a container lacks, from the LimitRanges of the namespace |

Devices that pods request through ResourceClaimTemplates are added too (device_requests.py), and the nodes of allocated
claims that they share (claim_nodes.py).

A Workload that was built from pods has these defaults already: existing pods are neither completed nor rejected.

The planner is fed Workloads with all defaults, so quota and placement count them. Objects are not changed. So a
Workload continues to match its job when these classes and ranges change (Kueue's pkg/workload/resources.go
AdjustResources, ValidateResources, ValidateLimitRange). Kueue adds no node selector and no tolerations.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_scheduler.quota.api.claim_nodes import with_claim_nodes
from zonewise_scheduler.quota.api.device_requests import check_device_requests, with_device_requests
from zonewise_scheduler.quota.api.limit_ranges import ContainerDefaults, check_pod, check_requests, container_defaults
from zonewise_scheduler.quota.api.pod_set_manifest import pod_set_objects, with_pod_sets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from zonewise_common.k8s.tolerant import Json


class RuntimeClassDefaults(NamedTuple):
    """The defaults that a RuntimeClass adds."""

    overhead: Mapping[str, Any] = {}
    node_selector: Mapping[str, Any] = {}
    tolerations: Sequence[Json] = ()


NO_RUNTIME_CLASS = RuntimeClassDefaults()


class PodDefaults(NamedTuple):
    """The objects that determine the defaults."""

    runtime_classes: Mapping[str, RuntimeClassDefaults] = {}
    """Defaults by name of the RuntimeClass."""
    limit_ranges: Mapping[str, Sequence[Json]] = {}
    """LimitRanges by namespace."""
    claim_templates: Mapping[str, Mapping[str, Json]] | None = None
    """ResourceClaimTemplates by namespace and name; None: they cannot be read."""
    places_devices: bool = False
    """Whether the devices of nodes are known, so that placements count them."""
    claim_nodes: Mapping[str, Mapping[str, Sequence[Json]]] = {}
    """Selectors of the nodes of allocated ResourceClaims that pods share, by namespace and name."""

    def claim_templates_of(self, namespace: str) -> Mapping[str, Json] | None:
        """Return the ResourceClaimTemplates of a namespace by name; None: they cannot be read."""
        return None if self.claim_templates is None else self.claim_templates.get(namespace, {})


NO_POD_DEFAULTS = PodDefaults()
_MADE_OF_PODS = frozenset({"Pod", "PodGroup"})
"""Kinds of owners whose Workload has the templates of existing pods."""


def runtime_class_defaults(runtime_class: Json) -> RuntimeClassDefaults:
    """Return the defaults that a RuntimeClass adds (node.k8s.io/v1)."""
    overhead: Json = runtime_class.get("overhead") or {}
    scheduling: Json = runtime_class.get("scheduling") or {}
    return RuntimeClassDefaults(
        overhead.get("podFixed") or {},
        scheduling.get("nodeSelector") or {},
        scheduling.get("tolerations") or (),
    )


def build_pod_defaults(
    runtime_classes: Iterable[Json],
    limit_ranges: Iterable[Json],
    claim_templates: Iterable[Json] | None,
    *,
    places_devices: bool,
    claim_nodes: Mapping[str, Mapping[str, Sequence[Json]]] = MappingProxyType({}),
) -> PodDefaults:
    """Return the defaults that objects determine; `claim_templates`: None if they cannot be read."""
    ranges: dict[str, list[Json]] = {}
    for obj in limit_ranges:
        ranges.setdefault(obj["metadata"]["namespace"], []).append(obj)
    templates: dict[str, dict[str, Json]] = {}
    for obj in claim_templates or ():
        templates.setdefault(obj["metadata"]["namespace"], {})[obj["metadata"]["name"]] = obj.get("spec") or {}
    return PodDefaults(
        {str(obj["metadata"]["name"]): runtime_class_defaults(obj) for obj in runtime_classes},
        ranges,
        None if claim_templates is None else templates,
        places_devices,
        claim_nodes,
    )


def changed_namespaces(before: PodDefaults, after: PodDefaults) -> Callable[[str], bool]:
    """Return a function that returns whether the defaults of a namespace's pods may have changed."""
    if before.runtime_classes != after.runtime_classes or before.places_devices != after.places_devices:
        return lambda _namespace: True
    return lambda namespace: (
        before.limit_ranges.get(namespace) != after.limit_ranges.get(namespace)
        or before.claim_templates_of(namespace) != after.claim_templates_of(namespace)
        or before.claim_nodes.get(namespace) != after.claim_nodes.get(namespace)
    )


def with_pod_defaults(workload: Json, defaults: PodDefaults) -> Json:
    """Return a Workload as its pods will be; the same Workload if nothing is added. Raises FieldError."""
    templates = defaults.claim_templates_of(_namespace(workload))
    workload = with_device_requests(workload, templates, placed=defaults.places_devices)
    workload = with_claim_nodes(workload, defaults.claim_nodes.get(_namespace(workload), {}))
    ranges = defaults.limit_ranges.get(_namespace(workload), ())
    if (not ranges and not defaults.runtime_classes) or _is_made_of_pods(workload):
        return workload
    of_containers, runtime_classes = container_defaults(ranges), defaults.runtime_classes
    return with_pod_sets(workload, lambda pod_set, path: _pod_set(pod_set, path, of_containers, runtime_classes))


def check_pods(workload: Json, defaults: PodDefaults, *, counts_devices: bool = True) -> None:
    """Raise FieldError for a completed Workload whose pods the API server would reject.

    It rejects pods whose requests exceed a limit or violate a LimitRange, or whose node selector contradicts that of
    their RuntimeClass.
    A Workload whose devices cannot be counted is an error too, if devices count.
    """
    if counts_devices:
        check_device_requests(workload, defaults.claim_templates_of(_namespace(workload)))
    if _is_made_of_pods(workload):
        return
    ranges = defaults.limit_ranges.get(_namespace(workload), ())
    for pod_set, path in pod_set_objects(workload):
        spec = object_in(object_in(pod_set, "template", path), "spec", f"{path}template.")
        check_requests(spec, f"{path}template.spec.")
        _check_node_selector(spec, f"{path}template.spec.", defaults.runtime_classes)
        if ranges:
            check_pod(spec, f"{path}template.spec.", ranges)


def _check_node_selector(spec: Json, path: str, runtime_classes: Mapping[str, RuntimeClassDefaults]) -> None:
    """Raise FieldError for a label with another value in the RuntimeClass (runtimeclass/admission.go setScheduling)."""
    name = string_in(spec, "runtimeClassName", path)
    required = runtime_classes.get(name, NO_RUNTIME_CLASS).node_selector
    selector = object_in(spec, "nodeSelector", path)
    for label in required:
        if selector.get(label) != required[label]:
            raise FieldError(f"{path}nodeSelector", f"RuntimeClass {name:.80} has another value of {label!r:.80}")


def _namespace(workload: Json) -> str:
    return string_in(object_in(workload, "metadata", ""), "namespace", "metadata.")


def _is_made_of_pods(workload: Json) -> bool:
    owners = objects_in(object_in(workload, "metadata", ""), "ownerReferences", "metadata.")
    return any(owner.get("kind") in _MADE_OF_PODS for owner in owners)


def _pod_set(
    pod_set: Json, path: str, of_containers: ContainerDefaults, runtime_classes: Mapping[str, RuntimeClassDefaults]
) -> Json:
    template = object_in(pod_set, "template", path)
    path += "template.spec."
    spec = object_in(template, "spec", path)
    runtime_class = runtime_classes.get(string_in(spec, "runtimeClassName", path), NO_RUNTIME_CLASS)
    added: Json = {}
    if runtime_class.overhead and not spec.get("overhead"):
        added["overhead"] = runtime_class.overhead
    if runtime_class.node_selector:
        added["nodeSelector"] = {**runtime_class.node_selector, **object_in(spec, "nodeSelector", path)}
    if runtime_class.tolerations:
        own = objects_in(spec, "tolerations", path)
        added["tolerations"] = [*own, *(each for each in runtime_class.tolerations if each not in own)]
    if any(of_containers):
        for name in ("initContainers", "containers"):
            items = objects_in(spec, name, path)
            if items:
                added[name] = [_container(item, f"{path}{name}.", of_containers) for item in items]
    return {**pod_set, "template": {**template, "spec": {**spec, **added}}} if added else pod_set


def _container(container: Json, path: str, of_containers: ContainerDefaults) -> Json:
    """Return a container with its defaults. Its own limit precedes the default request (SetDefaults_Pod)."""
    resources = object_in(container, "resources", path)
    requests, limits = (object_in(resources, name, f"{path}resources.") for name in ("requests", "limits"))
    completed = {
        "requests": {**of_containers.requests, **limits, **requests},
        "limits": {**of_containers.limits, **limits},
    }
    return {**container, "resources": {**resources, **completed}}
