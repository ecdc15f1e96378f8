"""The requirements of PodGroups on the placement of their pods, for both APIs in use.

Sources: scheduler-plugins apis/scheduling/v1alpha1/types.go; k8s.io/api scheduling/v1alpha2/types.go
and scheduling/v1beta1/types.go.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError, object_in, objects_in, quantities_in, string_in
from zonewise_common.kube.resources import IN_TREE_POD_GROUPS, POD_GROUPS
from zonewise_scheduler.nodes.node.pod_requests import NO_RESOURCES, new_resource
from zonewise_scheduler.quota.api.pod_group_key import GroupKey, read_integer, read_min_member

if TYPE_CHECKING:
    from zonewise_common.k8s.tolerant import Json
    from zonewise_scheduler.admission.node import Resource

SCHEDULE_TIMEOUT = 60.0
"""Seconds: the default of permitWaitingTimeSeconds in the Coscheduling plugin's arguments."""


class PodGroup(NamedTuple):
    """The requirements of a PodGroup on the placement of its pods."""

    key: GroupKey
    min_member: int = 1
    """Number of pods that must have nodes before any of them is bound; 1: each pod is placed by itself."""
    created: float = 0.0
    """Creation time in seconds since the epoch."""
    priority: int | None = None
    """Priority of the group; None: the priority of its pods."""
    schedule_timeout: float = SCHEDULE_TIMEOUT
    """Seconds for which all its pods remain assumed while not all of them are bound."""
    level: str = ""
    """Label key for which the nodes of all pods must have the same value; "": any nodes."""
    min_resources: Resource = NO_RESOURCES
    """Amounts that all nodes together must have left before the first pod is placed."""

    @property
    def is_gang(self) -> bool:
        """Return whether the placement of one pod depends on the other pods."""
        return self.min_member > 1 or bool(self.level)


def decode_pod_group(raw: msgspec.Raw) -> PodGroup:
    """Decode a PodGroup of scheduling.x-k8s.io/v1alpha1. Raises msgspec.DecodeError and FieldError.

    The default of minMember is 1.
    """
    group: Json = _OBJECT.decode(raw)
    spec = object_in(group, "spec", "")
    min_member = read_min_member(POD_GROUPS.group, group)
    timeout = read_integer(spec, "scheduleTimeoutSeconds", "spec.") or 0
    return PodGroup(
        _key(POD_GROUPS.group, group), max(min_member or 1, 1), _created(group),
        schedule_timeout=float(timeout) if timeout > 0 else SCHEDULE_TIMEOUT,
        min_resources=new_resource(quantities_in(spec, "minResources", "spec.")),
    )  # fmt: skip


def decode_in_tree_pod_group(raw: msgspec.Raw) -> PodGroup:
    """Decode a PodGroup of scheduling.k8s.io, v1alpha2 or v1beta1. Raises msgspec.DecodeError and FieldError."""
    group: Json = _OBJECT.decode(raw)
    spec = object_in(group, "spec", "")
    constraints = object_in(spec, "schedulingConstraints", "spec.")
    topology = objects_in(constraints, "topology", "spec.schedulingConstraints.")
    return PodGroup(
        _key(IN_TREE_POD_GROUPS.group, group),
        max(read_min_member(IN_TREE_POD_GROUPS.group, group) or 1, 1),
        _created(group),
        read_integer(spec, "priority", "spec."),
        level=string_in(topology[0], "key", "spec.schedulingConstraints.topology[0].") if topology else "",
    )


def _key(api_group: str, group: Json) -> GroupKey:
    metadata = object_in(group, "metadata", "")
    return GroupKey(api_group, string_in(metadata, "namespace", "metadata."), string_in(metadata, "name", "metadata."))


def _created(group: Json) -> float:
    text = string_in(object_in(group, "metadata", ""), "creationTimestamp", "metadata.")
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        raise FieldError("metadata.creationTimestamp", f"not a time: {text!r:.80}") from None


_OBJECT = msgspec.json.Decoder(dict[str, Any])
