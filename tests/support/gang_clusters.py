"""A cluster of simulated kubelets with PodGroups, for kube-scheduler's calls and the scheduling passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.extender_caches import DirectCluster, candidates
from zonewise_scheduler.extender.objects.pod_group import PodGroup
from zonewise_scheduler.extender.objects.served import Served
from zonewise_scheduler.nodes.filters.constraints import DEFAULT_SCHEDULER
from zonewise_scheduler.quota.api.pod_group_key import GroupKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.admission.pod import PodShape
    from zonewise_scheduler.extender.placing.placer import ScheduleResult

API = "scheduling.x-k8s.io"


def group_key(name: str) -> GroupKey:
    return GroupKey(API, "lab", name)


class GangCluster(DirectCluster):
    """A cluster with PodGroups."""

    def __init__(self, *names: str, **options: Any) -> None:
        super().__init__(*names, **options)
        self.cache.set_pod_groups_served(API, Served.YES)

    def create_group(self, name: str, min_member: int, **fields: Any) -> PodGroup:
        """Create a PodGroup; the cache observes it."""
        group = PodGroup(group_key(name), min_member, self.clock(), **fields)
        self.cache.update_pod_group(None, group)
        return group

    def create_gang(self, name: str, shapes: Sequence[PodShape], min_member: int = 0, **spec: Any) -> list[str]:
        """Create a PodGroup and its pods; return their names."""
        self.create_group(name, min_member or len(shapes))
        return self.create_members(name, shapes, **spec)

    def create_members(self, group: str, shapes: Sequence[PodShape], first: int = 0, **spec: Any) -> list[str]:
        """Create pods of a PodGroup; return their names."""
        names = [f"{group}-{index}" for index in range(first, first + len(shapes))]
        for name, shape in zip(names, shapes, strict=True):
            self.create(name, shape, group=group_key(group), **spec)
        return names

    def filter(self, name: str, *nodes: str) -> ScheduleResult:
        """Filter a pod as kube-scheduler does."""
        pod, key = self.pods[name], self.specs[name].group
        offered = candidates(nodes or tuple(self.kubelets))
        result = None if key is None else self.cache.select_gang_member(pod, key, DEFAULT_SCHEDULER, offered)
        return self.cache.select_and_assume(pod, offered) if result is None else result

    def filter_and_bind(self, name: str, *nodes: str) -> str:
        """Filter a pod and bind it as kube-scheduler does; return its node, or ""."""
        result = self.filter(name, *nodes)
        if result.node:
            self.bound[name] = result.node
            self.observe(name)
        return result.node

    def reason(self, name: str) -> str:
        """Return the only reason why a pod waits."""
        result = self.filter(name)
        assert not result.node
        [reason] = set(result.failed_nodes.values())
        return reason

    def requeue(self) -> list[str]:
        """Return the names of the pods that kube-scheduler must filter again."""
        return [pod.name for pod in self.cache.pods_to_requeue()]
