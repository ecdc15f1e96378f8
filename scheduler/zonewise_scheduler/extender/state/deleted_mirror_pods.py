"""Mirror pods that were deleted, although their static pods may still run."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zonewise_scheduler.extender.objects.api_objects import ObservedPod

MIRROR_LIFETIME = 120.0
"""Seconds after which a static pod without a mirror pod counts as ended. The kubelet synchronizes each pod after 60 to
90 s (pkg/kubelet/pod_workers.go completeWork, syncFrequency), and then creates a missing mirror pod."""


class _Deleted(NamedTuple):
    pod: ObservedPod
    until: float


class DeletedMirrorPods:
    """See the module. Times are seconds of one clock."""

    def __init__(self) -> None:
        self._deleted: dict[tuple[str, str], _Deleted] = {}

    def add(self, pod: ObservedPod, at: float) -> None:
        """Record the deletion of a mirror pod."""
        self._deleted[pod.namespace, pod.name] = _Deleted(pod, at + MIRROR_LIFETIME)

    def take_predecessor(self, pod: ObservedPod) -> ObservedPod | None:
        """Forget the deleted mirror pod of a new pod's name; return it if it belongs to another static pod."""
        deleted = self._deleted.pop((pod.namespace, pod.name), None)
        return None if deleted is None or deleted.pod.uid == pod.uid else deleted.pod

    def on_node(self, node: str) -> list[ObservedPod]:
        """Return the deleted mirror pods of a node."""
        return [deleted.pod for deleted in self._deleted.values() if deleted.pod.node == node]

    def expired(self, at: float) -> list[ObservedPod]:
        """Return the deleted mirror pods that have not been created again in time."""
        return [deleted.pod for deleted in self._deleted.values() if deleted.until <= at]

    def remove(self, pod: ObservedPod) -> None:
        """Forget a deleted mirror pod."""
        del self._deleted[pod.namespace, pod.name]
