"""What the API server adds to the pods of a job, and its template does not show.

| plugin of the API server | what it adds |
|---|---|
| RuntimeClass | the overhead of the pod's RuntimeClass |
| LimitRanger | requests and limits that a container lacks, by the LimitRanges of the namespace |

The planner is given Workloads with all of it, and so quota and placement count it. Objects are not changed. So a
Workload stays that of its job, whatever becomes of these classes and ranges (Kueue's pkg/workload/resources.go
AdjustResources, ValidateResources, ValidateLimitRange).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.k8s.fields import object_in, objects_in, string_in
from zonewise_scheduler.controller.workloads.limit_ranges import ContainerDefaults, check_pod, container_defaults

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from zonewise_scheduler.controller.types import Json


class PodDefaults(NamedTuple):
    """The objects that decide about it."""

    overheads: Mapping[str, Json] = {}
    """The overhead of each RuntimeClass that has one, by name."""
    limit_ranges: Mapping[str, Sequence[Json]] = {}
    """LimitRanges by namespace."""


NO_POD_DEFAULTS = PodDefaults()


def changed_namespaces(before: PodDefaults, after: PodDefaults) -> Callable[[str], bool]:
    """Return a function that tells whether the pods of a namespace may get other defaults than before."""
    if before.overheads != after.overheads:
        return lambda _namespace: True
    return lambda namespace: before.limit_ranges.get(namespace) != after.limit_ranges.get(namespace)


def with_pod_defaults(workload: Json, defaults: PodDefaults) -> Json:
    """Return a Workload as its pods will be; the same one where nothing is added. Raises FieldError."""
    ranges = defaults.limit_ranges.get(_namespace(workload), ())
    if not ranges and not defaults.overheads:
        return workload
    of_containers = container_defaults(ranges)
    spec = object_in(workload, "spec", "")
    pod_sets = objects_in(spec, "podSets", "spec.")
    completed = [
        _pod_set(pod_set, f"spec.podSets[{i}].", of_containers, defaults.overheads)
        for i, pod_set in enumerate(pod_sets)
    ]
    return workload if completed == pod_sets else {**workload, "spec": {**spec, "podSets": completed}}


def check_limits(workload: Json, defaults: PodDefaults) -> None:
    """Raise FieldError for a completed Workload whose pods the API server would reject for their requests."""
    ranges = defaults.limit_ranges.get(_namespace(workload), ())
    for i, pod_set in enumerate(objects_in(object_in(workload, "spec", ""), "podSets", "spec.") if ranges else ()):
        path = f"spec.podSets[{i}].template."
        check_pod(object_in(object_in(pod_set, "template", path), "spec", path), f"{path}spec.", ranges)


def _namespace(workload: Json) -> str:
    return string_in(object_in(workload, "metadata", ""), "namespace", "metadata.")


def _pod_set(pod_set: Json, path: str, of_containers: ContainerDefaults, overheads: Mapping[str, Json]) -> Json:
    template = object_in(pod_set, "template", path)
    spec = object_in(template, "spec", f"{path}template.")
    added: Json = {}
    overhead = overheads.get(string_in(spec, "runtimeClassName", f"{path}template.spec."))
    if overhead and not spec.get("overhead"):
        added["overhead"] = overhead
    if any(of_containers):
        for name in ("initContainers", "containers"):
            items = objects_in(spec, name, f"{path}template.spec.")
            if items:
                added[name] = [_container(item, f"{path}template.spec.{name}.", of_containers) for item in items]
    return {**pod_set, "template": {**template, "spec": {**spec, **added}}} if added else pod_set


def _container(container: Json, path: str, of_containers: ContainerDefaults) -> Json:
    """Return a container with its defaults. Its own limit goes before the default request (SetDefaults_Pod)."""
    resources = object_in(container, "resources", path)
    requests, limits = (object_in(resources, name, f"{path}resources.") for name in ("requests", "limits"))
    completed = {
        "requests": {**of_containers.requests, **limits, **requests},
        "limits": {**of_containers.limits, **limits},
    }
    return {**container, "resources": {**resources, **completed}}
