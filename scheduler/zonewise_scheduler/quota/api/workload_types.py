"""Workloads: what a job asks for, and what it has been given."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.nodeaffinity import NodeSelectorTerm
from zonewise_common.k8s.taints import Toleration
from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.quota.api.amount import MIN_AMOUNT, UNLIMITED, plus
from zonewise_scheduler.quota.api.resource_quota import FlavorResource
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, PreferredSchedulingTerm

Amounts = Mapping[str, int]
"""By resource."""

Usage = Mapping[FlavorResource, int]
"""Amounts by flavor and resource."""

NO_AMOUNTS: Amounts = MappingProxyType({})

DEFAULT_POD_SET = "main"


class TopologyRequest(NamedTuple):
    """podSets[].topologyRequest."""

    request: PodSetTopologyRequest = PodSetTopologyRequest()
    pod_set_group_name: str = ""
    """podSetGroupName: pod sets of one group get the same flavors, and are placed together."""
    explicit: bool = True
    """Placement is asked for: required, preferred, unconstrained or by slices."""


DelayedTopologyRequest = Literal["", "Pending", "Ready"]
"""delayedTopologyRequest: the pods are placed only after the quota is reserved, and were not yet or were."""


class PodSet(NamedTuple):
    """Pods of one template."""

    name: str = DEFAULT_POD_SET
    pods: int = 1
    """How many: the API's count."""
    requests: Amounts = NO_AMOUNTS
    """Of each pod."""
    min_pods: int | None = None
    """Partial admission: as few will do; None: all are needed."""
    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] | None = None
    """Of the required node affinity; None: there is none."""
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest | None = None
    preferences: tuple[PreferredSchedulingTerm, ...] = ()
    """Of the preferred node affinity."""
    node_requests: Amounts | None = None
    """What each pod requests of its node, where the quota counts something else (KEP-2937); None: `requests`."""
    shape: PodShape | None = None
    """What a kubelet's answer to each pod depends on; None: it is not known, and whatever is asked of zones neither."""

    @property
    def requests_on_node(self) -> Amounts:
        """Return what each pod requests of its node."""
        return self.requests if self.node_requests is None else self.node_requests


class PodSetAdmission(NamedTuple):
    """What a pod set was given."""

    name: str
    flavors: Mapping[str, str]
    """By resource."""
    usage: Amounts
    """Of all its pods."""
    pods: int
    topology_assignment: object | None = None
    """Where they are placed, where that was decided with it."""
    delayed_topology_request: DelayedTopologyRequest = ""


class Admission(NamedTuple):
    """A workload's quota reservation."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]
    reserved_at: float = 0.0
    """Since when, seconds."""
    pending_checks: tuple[str, ...] = ()
    """Admission checks that it has not passed yet; it runs only once there are none."""
    admitted_at: float | None = None
    """When the last of them was passed, from which on its declared run time counts; None: there was none to pass, and
    it has been running since `at`, or there is one still."""

    @property
    def started_at(self) -> float:
        """Return when it began to run."""
        return self.reserved_at if self.admitted_at is None else self.admitted_at


class Eviction(NamedTuple):
    """That a workload is to stop, or has stopped and not started since."""

    reason: str
    """"Preempted", "PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", ..."""
    at: float


class PodSetResources(NamedTuple):
    """What a pod set asks for as a whole."""

    name: str
    pods: int
    requests: Amounts

    def scaled_to(self, pods: int) -> "PodSetResources":
        """Return it with another number of pods."""
        return (
            self
            if pods == self.pods
            else PodSetResources(self.name, pods, scale_requests(self.requests, self.pods, pods))
        )


def scale_requests(requests: Amounts, old: int, new: int) -> Amounts:
    """Return what `new` pods ask for where `old` pods ask for `requests`; nothing is known of no pods."""
    if old == 0:
        return requests
    return {name: max(MIN_AMOUNT, min(amount // old * new, UNLIMITED)) for name, amount in requests.items()}


@dataclass(frozen=True, eq=False)
class Workload:
    """A job in the queue, waiting or running; times are seconds."""

    namespace: str
    name: str
    pod_sets: tuple[PodSet, ...]
    uid: str = ""
    queue_name: str = ""
    """The LocalQueue's name."""
    priority: int = 0
    """With its boost, if it has one."""
    created_at: float = 0.0
    admission: Admission | None = None
    eviction: Eviction | None = None
    reclaimable_pods: Mapping[str, int] = field(default_factory=dict[str, int])
    """Pods that are no longer needed, by pod set."""
    preemption_gated: bool = False
    """A preemption gate is closed: it may not preempt."""
    allowed_flavors: frozenset[str] | None = None
    """None: all."""
    active: bool = True
    unhealthy_nodes: tuple[str, ...] = ()
    """unhealthyNodes: hostnames of nodes from which its pods are to move."""
    owned_by_single_pod: bool = False
    """Its owner is a single pod, which never moves (workload.go OwnedBySinglePod)."""
    walltime: float = math.inf
    """Declared run time in seconds, an upper bound; infinite where none is declared."""
    history_keys: tuple[Hashable, ...] = ()
    """Whose run times its own is likely to resemble, from the widest circle in: (user, queue, template)."""
    failed_checks: tuple[str, ...] = ()
    """Admission checks in state Retry or Rejected."""

    @cached_property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def local_queue_key(self) -> str:
        """Namespace and name of its LocalQueue."""
        return f"{self.namespace}/{self.queue_name}"

    @property
    def max_duration(self) -> float:
        """How long it holds what its admission gives it at most, from its start on, seconds.

        Nobody knows how long its admission checks will take.
        """
        return math.inf if self.admission is not None and self.admission.pending_checks else self.walltime

    @cached_property
    def total_requests(self) -> tuple[PodSetResources, ...]:
        """What each pod set asks for, without the pods that are no longer needed."""
        found: list[PodSetResources] = []
        for one in self.pod_sets:
            pods = one.pods - self.reclaimable_pods.get(one.name, 0)
            requests = {name: max(0, amount) for name, amount in one.requests.items()}
            found.append(PodSetResources(one.name, pods, scale_requests(requests, 1, pods)))
        return tuple(found)

    @cached_property
    def scheduling_shape(self) -> Hashable:
        """What a scan of flavors depends on: workloads with equal shapes fare alike at the same time in one queue."""
        sets = tuple(
            (
                *(one.name, one.pods, one.min_pods, one.selector, one.terms, one.tolerations),
                *(one.topology, one.preferences, one.shape),
            )
            for one in self.pod_sets
        )
        totals = tuple((one.pods, frozenset(one.requests.items())) for one in self.total_requests)
        nodes = tuple(frozenset(one.requests_on_node.items()) for one in self.pod_sets)
        return sets, totals, nodes, self.priority, self.allowed_flavors, self.preemption_gated

    @cached_property
    def admitted_pod_sets(self) -> Mapping[str, PodSetAdmission]:
        """What each pod set holds by its admission, without the pods that are no longer needed."""
        if self.admission is None:
            return {}
        needed = {one.name: one.pods - self.reclaimable_pods.get(one.name, 0) for one in self.pod_sets}
        return {one.name: _shrunk(one, needed.get(one.name, one.pods)) for one in self.admission.pod_sets}

    @cached_property
    def usage(self) -> Usage:
        """What it holds by its admission."""
        found: dict[FlavorResource, int] = {}
        for one in self.admitted_pod_sets.values():
            for resource, amount in one.usage.items():
                if flavor := one.flavors.get(resource):
                    key = FlavorResource(flavor, resource)
                    found[key] = plus(found.get(key, 0), amount)
        return found

    @cached_property
    def flavor_resources(self) -> frozenset[FlavorResource]:
        """What it was given flavors of, even where it uses nothing of it."""
        return frozenset(
            FlavorResource(flavor, resource)
            for one in self.admitted_pod_sets.values()
            for resource, flavor in one.flavors.items()
        )

    def queue_order_timestamp(self, *, requeue_from_eviction: bool = True) -> float:
        """Return since when it counts as waiting (workload.go GetQueueOrderTimestamp).

        `from_timeout`: a workload whose pods were not ready in time begins to wait at its eviction.
        """
        reasons = {"AdmissionCheck", "PodsReadyTimeout"} if requeue_from_eviction else {"AdmissionCheck"}
        moved = self.eviction is not None and self.eviction.reason in reasons
        return self.eviction.at if moved and self.eviction is not None else self.created_at


def _shrunk(one: PodSetAdmission, pods: int) -> PodSetAdmission:
    if pods >= one.pods:  # more are needed than were admitted: partial admission
        return one
    return one._replace(usage=scale_requests(one.usage, one.pods, pods), pods=pods)


class PriorityClass(NamedTuple):
    """A WorkloadPriorityClass."""

    name: str
    value: int


PreemptionStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
"""When a workload may be preempted for a fairer sharing (KEP-1714, rules S2-a and S2-b)."""


class AdmissionFairSharingConfig(NamedTuple):
    """The configuration admissionFairSharing (KEP-4136): how what LocalQueues have used is remembered."""

    usage_half_life_time: float = 0.0
    """Seconds; 0: nothing is remembered."""
    usage_sampling_interval: float = 300.0
    """Seconds between samples."""
    resource_weights: Mapping[str, float] | None = None
    """By resource; 1 where it is not named."""

    def alpha_rate(self, seconds: float) -> float:
        """Return which part of what was used is forgotten within a time."""
        return 1.0 - 0.5 ** (seconds / self.usage_half_life_time) if self.usage_half_life_time else 0.0


class QuotaSettings(NamedTuple):
    """What is the same for all queues."""

    fair_sharing: bool = False
    preemption_strategies: tuple[PreemptionStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    """Tried one after the other; none: these two."""
    partial_admission: bool = True
    ignore_undeclared_resources: bool = False
    """quotaCheckStrategy IgnoreUndeclared: resources without quota are not counted."""
    requeue_from_eviction: bool = True
    """requeuingStrategy.timestamp Eviction: see Workload.queued_at."""
    recompute_topology_assignment: bool = True
    """TASRecomputeAssignmentWithinSchedulingCycle: where another took its places, it looks for others at once."""
    fail_fast_node_replacement: bool = True
    """TASFailedNodeReplacementFailFast: a workload whose node failed is evicted where no other is found at once."""
    admission_fair_sharing: AdmissionFairSharingConfig | None = None
    """admissionFairSharing; None: no admission follows usage."""


DEFAULT_SETTINGS = QuotaSettings()
