"""The fields of an unbound pod, apart from its shape, on which its placement depends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import object_in, string_map_in
from zonewise_scheduler.nodes.filters.constraints import (
    DEFAULT_SCHEDULER,
    Constraints,
    read_constraints,
    scheduler_name,
)
from zonewise_scheduler.nodes.node.avoided_conditions import SINGLE_POD
from zonewise_scheduler.quota.api.pod_group_key import read_group_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.quota.api.pod_group_key import GroupKey

_WORKLOAD_REF = "workloadRef"
"""The field of the spec that made a pod part of a gang in release 1.35 (k8s.io/api/core/v1)."""
_NOT_SCHEDULED = {"type": "PodScheduled", "status": "False"}
_TRIED = ("Unschedulable", "SchedulerError")
"""Reasons of a scheduler that has tried a pod (pkg/scheduler/schedule_one.go handleSchedulingFailure). The second
applies if the extender did not respond, for example because it restarts."""


class SchedulingSpec(NamedTuple):
    """An unbound pod as a scheduling pass sees it."""

    scheduler: str = DEFAULT_SCHEDULER
    priority: int = 0
    created: float = 0.0
    """Creation time in seconds since the epoch; whole seconds, as in the API."""
    constraints: Constraints = Constraints()
    labels: tuple[tuple[str, str], ...] = ()
    gated: bool = False
    """The pod has scheduling gates or is being deleted, so no scheduler may bind it."""
    group: GroupKey | None = None
    """The PodGroup that the pod names."""
    has_workload: bool = False
    """The pod is part of a gang through an API that only kube-scheduler knows."""
    unschedulable: bool = False
    """According to the condition PodScheduled, its scheduler has tried the pod without success."""

    @property
    def is_exact(self) -> bool:
        """Return whether our own filters decide exactly about the pod by itself.

        The required anti-affinity of other pods (AntiAffinityTerm) and the other pods of a gang are checked separately.
        """
        return not self.constraints.scheduler_only and not self.has_workload


def read_scheduling_spec(pod: Mapping[str, Any], created: float) -> SchedulingSpec:
    """Return the fields of an unbound v1.Pod. Raises FieldError."""
    spec, metadata = object_in(pod, "spec", ""), object_in(pod, "metadata", "")
    labels = string_map_in(metadata, "labels", "metadata.")
    priority = spec.get("priority")
    constraints, group, has_workload = read_constraints(pod), read_group_key(pod), bool(spec.get(_WORKLOAD_REF))
    if group is None and not has_workload:
        constraints = constraints._replace(tolerations=(*constraints.tolerations, SINGLE_POD))
    return SchedulingSpec(
        scheduler_name(pod),
        priority if isinstance(priority, int) else 0,
        created,
        constraints,
        labels,
        gated=bool(spec.get("schedulingGates")) or metadata.get("deletionTimestamp") is not None,
        group=group,
        has_workload=has_workload,
        unschedulable=_is_unschedulable(object_in(pod, "status", "")),
    )


def _is_unschedulable(status: Mapping[str, Any]) -> bool:
    conditions: Iterable[Any] = status.get("conditions") or ()
    return any(
        _NOT_SCHEDULED.items() <= condition.items() and condition.get("reason") in _TRIED for condition in conditions
    )
