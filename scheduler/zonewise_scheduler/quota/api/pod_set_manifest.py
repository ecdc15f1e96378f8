"""The pod sets of a Workload, converted to and from API objects (Workload spec.podSets)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, string_in
from zonewise_scheduler.quota.api.workload_types import DEFAULT_POD_SET

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Json = dict[str, Any]


class PodSetManifest(NamedTuple):
    """An item of a Workload's spec.podSets, not yet an object (apis/kueue/v1beta2/workload_types.go PodSet)."""

    name: str
    pods: int
    """The field count of the API."""
    template: Json
    """A PodTemplateSpec, with metadata (labels, annotations) and spec."""
    min_count: int | None = None
    topology_request: Json | None = None

    def as_object(self) -> Json:
        """Return the pod set as decoded JSON; the template is shared, not copied."""
        obj: Json = {"name": self.name, "count": self.pods, "template": self.template}
        if self.min_count is not None:
            obj["minCount"] = self.min_count
        if self.topology_request is not None:
            obj["topologyRequest"] = self.topology_request
        return obj


def read_pod_set_manifests(workload: Mapping[str, Any]) -> tuple[PodSetManifest, ...]:
    """Return the pod sets of a Workload as submitted; templates are shared. Raises FieldError for invalid ones."""
    return tuple(_pod_set_manifest(pod_set, path) for pod_set, path in pod_set_objects(workload))


def pod_set_objects(workload: Mapping[str, Any]) -> list[tuple[Json, str]]:
    """Return the pod sets of a Workload, each with its path, which ends with a dot. Raises FieldError."""
    pod_sets = objects_in(object_in(workload, "spec", ""), "podSets", "spec.")
    return [(pod_set, f"spec.podSets[{i}].") for i, pod_set in enumerate(pod_sets)]


def with_pod_sets(workload: Json, change: Callable[[Json, str], Json]) -> Json:
    """Return a Workload with changed pod sets; the same Workload if no pod set changes. Raises FieldError.

    `change` gets a pod set and its path, as in pod_set_objects(), and returns a changed copy or the same pod set.
    """
    pod_sets = pod_set_objects(workload)
    changed = [change(pod_set, path) for pod_set, path in pod_sets]
    if changed == [pod_set for pod_set, _ in pod_sets]:
        return workload
    return {**workload, "spec": {**workload["spec"], "podSets": changed}}


def _pod_set_manifest(pod_set: Json, path: str) -> PodSetManifest:
    count, min_count = pod_set.get("count", 1), pod_set.get("minCount")
    for field, value in (("count", count), ("minCount", min_count)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise FieldError(f"{path}{field}", f"not a whole number: {value!r:.80}")
    return PodSetManifest(
        string_in(pod_set, "name", path) or DEFAULT_POD_SET,
        1 if count is None else count,
        object_in(pod_set, "template", path),
        min_count,
        object_in(pod_set, "topologyRequest", path) if pod_set.get("topologyRequest") is not None else None,
    )
