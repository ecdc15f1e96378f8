"""Workloads as values: the requests of a job and its admission.

apis/kueue/v1beta2/workload_types.go; pkg/workload/workload.go Info, PodSetResources.
"""

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
from zonewise_scheduler.quota.topology.types import PodSetTopologyRequest, PreferredSchedulingTerm, TopologyAssignment

Amounts = Mapping[str, int]
"""Amounts by resource."""

Usage = Mapping[FlavorResource, int]
"""Amounts by flavor and resource."""

NO_AMOUNTS: Amounts = MappingProxyType({})

DEFAULT_POD_SET = "main"


class TopologyRequest(NamedTuple):
    """podSets[].topologyRequest with its group."""

    request: PodSetTopologyRequest = PodSetTopologyRequest()
    pod_set_group_name: str = ""
    """podSetGroupName: pod sets of one group get the same flavors and are placed together."""
    explicit: bool = True
    """Whether a placement is requested: required, preferred, unconstrained or by slices (IsExplicitlyRequestingTAS)."""


DelayedTopologyRequest = Literal["", "Pending", "Ready"]
"""delayedTopologyRequest: the pods are placed only after the quota is reserved. Pending means that they have no
placement yet."""


class PodSet(NamedTuple):
    """Pods of one template."""

    name: str = DEFAULT_POD_SET
    pods: int = 1
    """The number of pods, the field count of the API."""
    requests: Amounts = NO_AMOUNTS
    """The requests of each pod."""
    min_pods: int | None = None
    """The field minCount of the API, for partial admission; None if all pods are needed."""
    node_selector: tuple[Requirement, ...] = ()
    required_terms: tuple[NodeSelectorTerm, ...] | None = None
    """The terms of the required node affinity; None without affinity."""
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest | None = None
    preferred_terms: tuple[PreferredSchedulingTerm, ...] = ()
    """The terms of the preferred node affinity."""
    node_requests: Amounts | None = None
    """The requests of each pod to its node, if quotas count other resources (KEP-2937); None: `requests`."""
    shape: PodShape | None = None
    """The properties on which a kubelet's verdict about each pod depends; None if unknown, and zones are then
    ignored."""

    @property
    def requests_on_node(self) -> Amounts:
        """Return the requests of each pod to its node."""
        return self.requests if self.node_requests is None else self.node_requests


class PodSetAdmission(NamedTuple):
    """The flavors, quota and placement of a pod set (the API's PodSetAssignment)."""

    name: str
    flavors: Mapping[str, str]
    """Flavors by resource."""
    usage: Amounts
    """The usage of all its pods."""
    pods: int
    topology_assignment: TopologyAssignment | None = None
    """The placement of its pods; None if it has no topology, or if its placement is decided later."""
    delayed_topology_request: DelayedTopologyRequest = ""


class Admission(NamedTuple):
    """The quota reservation of a workload."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]
    reserved_at: float = 0.0
    """Time at which its quota was reserved, in seconds."""
    pending_checks: tuple[str, ...] = ()
    """Admission checks that have not passed yet; the workload starts only when none are left."""
    admitted_at: float | None = None
    """Time at which the last admission check passed, in seconds; the walltime counts from then on.

    None if there was no check, so that the workload has been running since `reserved_at`, or if a check is pending.
    """

    @property
    def started_at(self) -> float:
        """Return the time at which the workload started, in seconds."""
        return self.reserved_at if self.admitted_at is None else self.admitted_at


class Eviction(NamedTuple):
    """An eviction: the workload must stop, or has stopped and not started since."""

    reason: str
    """"Preempted", "PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", ..."""
    at: float


class PodSetResources(NamedTuple):
    """The total requests of all pods of a pod set."""

    name: str
    pods: int
    requests: Amounts

    def scaled_to(self, pods: int) -> "PodSetResources":
        """Return the requests for another number of pods."""
        if pods == self.pods:
            return self
        return PodSetResources(self.name, pods, scale_requests(self.requests, self.pods, pods))


def scale_requests(requests: Amounts, old: int, new: int) -> Amounts:
    """Scale the requests of `old` pods to `new` pods; the requests of 0 pods cannot be scaled."""
    if old == 0:
        return requests
    return {name: max(MIN_AMOUNT, min(amount // old * new, UNLIMITED)) for name, amount in requests.items()}


_FROM_ADMISSION = ("admitted_pod_sets", "usage", "flavor_resources")
"""The cached properties of a workload that depend on its admission."""


@dataclass(frozen=True, eq=False)
class Workload:
    """A pending or running job with a queue; times are in seconds."""

    namespace: str
    name: str
    pod_sets: tuple[PodSet, ...]
    uid: str = ""
    queue_name: str = ""
    """Name of the LocalQueue."""
    priority: int = 0
    """The priority, including its boost, if any."""
    created_at: float = 0.0
    admission: Admission | None = None
    eviction: Eviction | None = None
    reclaimable_pods: Mapping[str, int] = field(default_factory=dict[str, int])
    """Number of pods that are no longer needed, by pod set."""
    preemption_gated: bool = False
    """Whether a preemption gate is closed, so that the workload may not preempt."""
    allowed_flavors: frozenset[str] | None = None
    """None if all flavors are allowed."""
    active: bool = True
    unhealthy_nodes: tuple[str, ...] = ()
    """unhealthyNodes: hostnames of nodes that its pods must leave."""
    owned_by_single_pod: bool = False
    """Whether its owner is a single pod, which never moves (workload.go OwnedBySinglePod)."""
    walltime: float = math.inf
    """The declared run time in seconds, an upper bound; infinite if none is declared."""
    has_default_walltime: bool = False
    """Whether it declares no walltime and has the default of its queues."""
    history_keys: tuple[Hashable, ...] = ()
    """Groups of workloads with similar run times, from general to specific, such as (user, queue, template)."""
    failed_checks: tuple[str, ...] = ()
    """Admission checks in state Retry or Rejected."""
    admission_gates: tuple[str, ...] = ()
    """Names of the gates that hold it while it is pending (admission_gates.py)."""
    begin_at: float = 0.0
    """It starts at this time, in seconds, at the earliest (begin_time.py)."""
    replaces: str = ""
    """Key of the workload slice of the same job that ends once this one is admitted (workload_slices.py); "": none."""

    @cached_property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def local_queue_key(self) -> str:
        """Namespace and name of its LocalQueue."""
        return f"{self.namespace}/{self.queue_name}"

    @property
    def is_admitted(self) -> bool:
        """Whether it has quota, its admission checks have passed, and the placement of its pods is known."""
        return (
            self.admission is not None
            and not self.admission.pending_checks
            and all(pod_set.delayed_topology_request != "Pending" for pod_set in self.admission.pod_sets)
        )

    @property
    def max_duration(self) -> float:
        """The longest time that it holds its admission, in seconds from its start.

        This is infinite while admission checks are pending, since their duration is unknown.
        """
        return math.inf if self.admission is not None and self.admission.pending_checks else self.walltime

    @cached_property
    def total_requests(self) -> tuple[PodSetResources, ...]:
        """The requests of each pod set, without the pods that are no longer needed."""
        totals: list[PodSetResources] = []
        for pod_set in self.pod_sets:
            pods = self._needed_pods(pod_set)
            requests = {name: max(0, amount) for name, amount in pod_set.requests.items()}
            totals.append(PodSetResources(pod_set.name, pods, scale_requests(requests, 1, pods)))
        return tuple(totals)

    @cached_property
    def requests_by_resource(self) -> dict[str, int]:
        """The requests of all pod sets together."""
        sums: dict[str, int] = {}
        for pod_set in self.total_requests:
            for name, amount in pod_set.requests.items():
                sums[name] = sums.get(name, 0) + amount
        return sums

    @cached_property
    def scheduling_shape(self) -> Hashable:
        """The inputs of a flavor scan: equal shapes get the same assignment in the same queue at the same time.

        Checkpoints of earlier versions contain digests of shapes, so a new field is part only of shapes that have it.
        """
        sets = tuple(
            (
                *(
                    pod_set.name,
                    pod_set.pods,
                    pod_set.min_pods,
                    pod_set.node_selector,
                    pod_set.required_terms,
                    pod_set.tolerations,
                ),
                *(pod_set.topology, pod_set.preferred_terms, pod_set.shape),
            )
            for pod_set in self.pod_sets
        )
        totals = tuple((total.pods, frozenset(total.requests.items())) for total in self.total_requests)
        nodes = tuple(frozenset(pod_set.requests_on_node.items()) for pod_set in self.pod_sets)
        shape = sets, totals, nodes, self.priority, self.allowed_flavors, self.preemption_gated
        return (*shape, self.replaces) if self.replaces else shape

    @cached_property
    def admitted_pod_sets(self) -> Mapping[str, PodSetAdmission]:
        """The admission of each pod set, by name, without the pods that are no longer needed."""
        if self.admission is None:
            return {}
        needed = {pod_set.name: self._needed_pods(pod_set) for pod_set in self.pod_sets}
        return {
            admitted.name: _shrunk(admitted, needed.get(admitted.name, admitted.pods))
            for admitted in self.admission.pod_sets
        }

    @cached_property
    def usage(self) -> Usage:
        """The usage of its admission."""
        usage: dict[FlavorResource, int] = {}
        for admitted in self.admitted_pod_sets.values():
            for resource, amount in admitted.usage.items():
                if flavor := admitted.flavors.get(resource):
                    key = FlavorResource(flavor, resource)
                    usage[key] = plus(usage.get(key, 0), amount)
        return usage

    @cached_property
    def flavor_resources(self) -> frozenset[FlavorResource]:
        """The flavor resources of its admission, even those with a usage of 0."""
        return frozenset(
            FlavorResource(flavor, resource)
            for admitted in self.admitted_pod_sets.values()
            for resource, flavor in admitted.flavors.items()
        )

    def admitted(self, admission: Admission) -> "Workload":
        """Return the workload with an admission that ends its eviction and leaves no unhealthy nodes.

        Values that depend only on its pod sets are kept. dataclasses.replace() drops them, and takes ten times as long.
        """
        workload = object.__new__(Workload)
        state = workload.__dict__
        state.update(self.__dict__)
        for name in _FROM_ADMISSION:
            state.pop(name, None)
        state.update(admission=admission, eviction=None, unhealthy_nodes=())
        return workload

    def _needed_pods(self, pod_set: PodSet) -> int:
        """Return the number of pods that are still needed; more may be reclaimable than there are."""
        return max(0, pod_set.pods - self.reclaimable_pods.get(pod_set.name, 0))

    def queue_order_timestamp(self, *, requeue_from_eviction: bool = True) -> float:
        """Return the time since which it counts as pending (workload.go GetQueueOrderTimestamp).

        `requeue_from_eviction`: whether a workload whose pods were not ready in time counts as pending since its
        eviction. A workload is not pending before its begin time.
        """
        since = self.created_at
        if self.eviction is not None:
            reasons = {"AdmissionCheck", "PodsReadyTimeout"} if requeue_from_eviction else {"AdmissionCheck"}
            since = self.eviction.at if self.eviction.reason in reasons else since
        return since if since > self.begin_at else self.begin_at


def _shrunk(admitted: PodSetAdmission, pods: int) -> PodSetAdmission:
    if pods >= admitted.pods:  # partial admission: more pods are needed than were admitted
        return admitted
    return admitted._replace(usage=scale_requests(admitted.usage, admitted.pods, pods), pods=pods)


class WorkloadPriorityClass(NamedTuple):
    """A WorkloadPriorityClass."""

    name: str
    value: int
