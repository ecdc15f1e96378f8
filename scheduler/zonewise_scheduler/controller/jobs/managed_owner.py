"""Whether an object belongs to a job that is queued instead of it (pkg/controller/jobframework/reconciler.go
FindAncestorJobManagedByKueue).

| object | its owners | queued |
|---|---|---|
| names a queue | one of them names a queue too | that owner |
| names a queue | of known kinds, without a queue | the object |
| names no queue | of a known kind | nothing: it gets no default queue |

Only owners that are controllers count, up to the first of an unknown kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import object_in, objects_in, string_in
from zonewise_scheduler.controller.jobs.job_fields import queue_name

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from zonewise_scheduler.controller.types import Json


def has_managed_owner(obj: Json, managed_kinds: Container[tuple[str, str]]) -> bool:
    """Return whether the controller of an object is of a kind that can be queued. Raises FieldError.

    `managed_kinds`: API groups and kinds with an adapter.
    """
    return _managed_owner_uid(obj, managed_kinds) is not None


def has_queued_owner(
    obj: Json,
    managed_kinds: Container[tuple[str, str]],
    find: Callable[[str], Json | None],
    *,
    manages_without_queue_name: bool = False,
) -> bool:
    """Return whether a job that owns an object, directly or not, is queued instead of it. Raises FieldError.

    A RayJob, for example, copies its labels to its RayCluster, including the queue label.

    `find`: returns the observed job with a UID. An owner that is not observed yet counts as queued.
    `manages_without_queue_name`: whether jobs without a queue are held too.
    """
    seen: set[str] = set()
    while (uid := _managed_owner_uid(obj, managed_kinds)) is not None and uid not in seen:
        seen.add(uid)
        owner = find(uid)
        if owner is None or manages_without_queue_name or queue_name(owner):
            return True
        obj = owner
    return False


def _managed_owner_uid(obj: Json, managed_kinds: Container[tuple[str, str]]) -> str | None:
    """Return the UID of the controller of an object if its kind can be queued; None: there is no such owner."""
    for owner in objects_in(object_in(obj, "metadata", ""), "ownerReferences", "metadata."):
        group, _, _ = string_in(owner, "apiVersion", "metadata.ownerReferences.").rpartition("/")
        kind = (group, string_in(owner, "kind", "metadata.ownerReferences."))
        if owner.get("controller") is True and kind in managed_kinds:
            return string_in(owner, "uid", "metadata.ownerReferences.")
    return None
