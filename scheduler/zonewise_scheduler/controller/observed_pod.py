"""A watched pod: the fields for its node, the fields for its ungating, and the whole object if it is a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_scheduler.controller.cluster_cache import drop_managed_fields
from zonewise_scheduler.controller.nodes.observed_objects import decode_pod
from zonewise_scheduler.controller.pods.managed_pod import read_managed_pod
from zonewise_scheduler.controller.pods.pod_group import is_queued_pod
from zonewise_scheduler.controller.pods.pod_names import MANAGED_LABEL
from zonewise_scheduler.nodes.filters.anti_affinity import read_anti_affinity

if TYPE_CHECKING:
    from zonewise_scheduler.controller.nodes.types import TrackedPod
    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.nodes.filters.anti_affinity import AntiAffinityTerm

_MANAGED = MANAGED_LABEL.encode()
_ANTI_AFFINITY = b'"podAntiAffinity"'
_ANY = msgspec.json.Decoder(dict[str, Any])


class WatchedPod(NamedTuple):
    """The watched fields of one pod."""

    tracked: TrackedPod
    managed: ManagedPod | None
    """Fields for ungating; None: the pod belongs to no Workload."""
    queued: dict[str, Any] | None = None
    """The whole object, if the pod is a job or belongs to a pod group; otherwise None."""
    anti_affinity: tuple[AntiAffinityTerm, ...] = ()
    """Required anti-affinity terms of a pod that has not terminated."""


def decode_observed_pod(raw: msgspec.Raw) -> WatchedPod:
    """Decode a v1.Pod. Raises msgspec.DecodeError, FieldError."""
    tracked, text = decode_pod(raw), bytes(raw)
    if not tracked.workload and _MANAGED not in text and _ANTI_AFFINITY not in text:
        return WatchedPod(tracked, None)
    obj = drop_managed_fields(_ANY.decode(raw))
    managed = read_managed_pod(obj, tracked.requests) if tracked.workload else None
    anti_affinity = read_anti_affinity(obj) if tracked.active else ()
    return WatchedPod(tracked, managed, obj if is_queued_pod(obj) else None, anti_affinity)
