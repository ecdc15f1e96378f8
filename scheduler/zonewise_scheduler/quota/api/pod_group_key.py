"""Reads which PodGroup a pod names, and how many of its pods start together, for the two existing APIs.

| API                                         | a pod names its group in         | the number of pods           |
|---------------------------------------------|----------------------------------|------------------------------|
| scheduling.x-k8s.io/v1alpha1 (Coscheduling) | label of LABEL                   | minMember                    |
| scheduling.k8s.io (gate GenericWorkload),   | schedulingGroup.podGroupName     | schedulingPolicy.gang        |
| v1alpha2 in Kubernetes 1.36, then v1beta1   |                                  | .minCount                    |

Sources: scheduler-plugins apis/scheduling/v1alpha1/types.go; k8s.io/api scheduling/v1alpha2/types.go and core/v1
PodSchedulingGroup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldError, object_in, string_in

if TYPE_CHECKING:
    from collections.abc import Mapping

COSCHEDULING_API_GROUP = "scheduling.x-k8s.io"
IN_TREE_API_GROUP = "scheduling.k8s.io"
LABEL = "scheduling.x-k8s.io/pod-group"
"""Label on the pods of a PodGroup of scheduling.x-k8s.io."""


class GroupKey(NamedTuple):
    """The identity of a PodGroup."""

    api_group: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Return the name for messages."""
        return f"PodGroup {self.namespace}/{self.name}"


def read_group_key(pod: Mapping[str, Any]) -> GroupKey | None:
    """Return the PodGroup that a v1.Pod names; None if it names none. Raises FieldError."""
    metadata = object_in(pod, "metadata", "")
    namespace = string_in(metadata, "namespace", "metadata.")
    group = object_in(object_in(pod, "spec", ""), "schedulingGroup", "spec.")
    if name := string_in(group, "podGroupName", "spec.schedulingGroup."):
        return GroupKey(IN_TREE_API_GROUP, namespace, name)
    if name := string_in(object_in(metadata, "labels", "metadata."), LABEL, "metadata.labels."):
        return GroupKey(COSCHEDULING_API_GROUP, namespace, name)
    return None


def read_min_member(api_group: str, group: Mapping[str, Any]) -> int | None:
    """Return the number of pods that start together; None if the PodGroup specifies none. Raises FieldError."""
    spec = object_in(group, "spec", "")
    if api_group == COSCHEDULING_API_GROUP:
        return read_integer(spec, "minMember", "spec.")
    gang = object_in(object_in(spec, "schedulingPolicy", "spec."), "gang", "spec.schedulingPolicy.")
    return read_integer(gang, "minCount", "spec.schedulingPolicy.gang.")


def read_integer(owner: Mapping[str, Any], name: str, path: str) -> int | None:
    """Return an integer field of a PodGroup; None if it is absent. Raises FieldError."""
    value = owner.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise FieldError(f"{path}{name}", f"not an integer: {value!r:.80}")
    return value
