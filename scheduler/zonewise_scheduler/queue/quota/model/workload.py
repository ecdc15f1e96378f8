"""Workloads: what a job asks for, and what it has been given."""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Literal, NamedTuple

from zonewise_scheduler.fit.model.pod import PodShape
from zonewise_scheduler.fit.nodes.selectors import Requirement, Term
from zonewise_scheduler.fit.nodes.taints import Toleration
from zonewise_scheduler.queue.quota.model.amounts import LEAST, UNLIMITED, plus
from zonewise_scheduler.queue.quota.model.quotas import FlavorResource
from zonewise_scheduler.queue.topology.model import Preference, Request

Amounts = Mapping[str, int]
"""By resource."""

Usage = Mapping[FlavorResource, int]
"""Amounts by flavor and resource."""

NONE: Amounts = MappingProxyType({})

DEFAULT_POD_SET = "main"


class TopologyRequest(NamedTuple):
    """podSets[].topologyRequest."""

    request: Request = Request()
    group: str = ""
    """podSetGroupName: pod sets of one group get the same flavors, and are placed together."""
    explicit: bool = True
    """Placement is asked for: required, preferred, unconstrained or by slices."""


Delayed = Literal["", "Pending", "Ready"]
"""delayedTopologyRequest: the pods are placed only after the quota is reserved, and were not yet or were."""


class PodSet(NamedTuple):
    """Pods of one template."""

    name: str = DEFAULT_POD_SET
    pods: int = 1
    """How many: the API's count."""
    requests: Amounts = NONE
    """Of each pod."""
    min_pods: int | None = None
    """Partial admission: as few will do; None: all are needed."""
    selector: tuple[Requirement, ...] = ()
    terms: tuple[Term, ...] | None = None
    """Of the required node affinity; None: there is none."""
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest | None = None
    preferences: tuple[Preference, ...] = ()
    """Of the preferred node affinity."""
    of_node: Amounts | None = None
    """What each pod requests of its node, where the quota counts something else (KEP-2937); None: `requests`."""
    shape: PodShape | None = None
    """What a kubelet's answer to each pod depends on; None: it is not known, and whatever is asked of zones neither."""

    @property
    def on_node(self) -> Amounts:
        """Return what each pod requests of its node."""
        return self.requests if self.of_node is None else self.of_node


class PodSetAdmission(NamedTuple):
    """What a pod set was given."""

    name: str
    flavors: Mapping[str, str]
    """By resource."""
    usage: Amounts
    """Of all its pods."""
    pods: int
    place: object | None = None
    """Where they are placed, where that was decided with it."""
    delayed: Delayed = ""


class Admission(NamedTuple):
    """A workload's quota reservation."""

    cluster_queue: str
    pod_sets: tuple[PodSetAdmission, ...]
    at: float = 0.0
    """Since when, seconds."""
    checks: tuple[str, ...] = ()
    """Admission checks that it has not passed yet; it runs only once there are none."""
    began: float | None = None
    """When the last of them was passed, from which on its declared run time counts; None: there was none to pass, and
    it has been running since `at`, or there is one still."""

    @property
    def runs_since(self) -> float:
        """Return when it began to run."""
        return self.at if self.began is None else self.began


class Eviction(NamedTuple):
    """That a workload is to stop, or has stopped and not started since."""

    reason: str
    """"Preempted", "PodsReadyTimeout", "AdmissionCheck", "ClusterQueueStopped", ..."""
    at: float


class Total(NamedTuple):
    """What a pod set asks for as a whole."""

    name: str
    pods: int
    requests: Amounts

    def scaled(self, pods: int) -> "Total":
        """Return it with another number of pods."""
        return self if pods == self.pods else Total(self.name, pods, scaled(self.requests, self.pods, pods))


def scaled(requests: Amounts, old: int, new: int) -> Amounts:
    """Return what `new` pods ask for where `old` pods ask for `requests`; nothing is known of no pods."""
    if old == 0:
        return requests
    return {name: max(LEAST, min(amount // old * new, UNLIMITED)) for name, amount in requests.items()}


@dataclass(frozen=True, eq=False)
class Workload:
    """A job in the queue, waiting or running; times are seconds."""

    namespace: str
    name: str
    pod_sets: tuple[PodSet, ...]
    uid: str = ""
    queue: str = ""
    """The LocalQueue's name."""
    priority: int = 0
    """With its boost, if it has one."""
    created: float = 0.0
    admission: Admission | None = None
    eviction: Eviction | None = None
    reclaimable: Mapping[str, int] = field(default_factory=dict[str, int])
    """Pods that are no longer needed, by pod set."""
    gated: bool = False
    """A preemption gate is closed: it may not preempt."""
    allowed_flavors: frozenset[str] | None = None
    """None: all."""
    active: bool = True
    failed_nodes: tuple[str, ...] = ()
    """unhealthyNodes: hostnames of nodes from which its pods are to move."""
    of_one_pod: bool = False
    """Its owner is a single pod, which never moves (workload.go OwnedBySinglePod)."""
    limit: float = math.inf
    """Declared run time in seconds, an upper bound; infinite where none is declared."""
    kin: tuple[Hashable, ...] = ()
    """Whose run times its own is likely to resemble, from the widest circle in: (user, queue, template)."""
    failed_checks: tuple[str, ...] = ()
    """Admission checks in state Retry or Rejected."""

    @cached_property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def local_queue(self) -> str:
        """Namespace and name of its LocalQueue."""
        return f"{self.namespace}/{self.queue}"

    @property
    def lasts(self) -> float:
        """How long it holds what its admission gives it at most, from its start on, seconds.

        Nobody knows how long its admission checks will take.
        """
        return math.inf if self.admission is not None and self.admission.checks else self.limit

    @cached_property
    def totals(self) -> tuple[Total, ...]:
        """What each pod set asks for, without the pods that are no longer needed."""
        found: list[Total] = []
        for one in self.pod_sets:
            pods = one.pods - self.reclaimable.get(one.name, 0)
            requests = {name: max(0, amount) for name, amount in one.requests.items()}
            found.append(Total(one.name, pods, scaled(requests, 1, pods)))
        return tuple(found)

    @cached_property
    def shape(self) -> Hashable:
        """What a scan of flavors depends on: workloads with equal shapes fare alike at the same time in one queue."""
        sets = tuple(
            (
                *(one.name, one.pods, one.min_pods, one.selector, one.terms, one.tolerations),
                *(one.topology, one.preferences, one.shape),
            )
            for one in self.pod_sets
        )
        totals = tuple((one.pods, frozenset(one.requests.items())) for one in self.totals)
        nodes = tuple(frozenset(one.on_node.items()) for one in self.pod_sets)
        return sets, totals, nodes, self.priority, self.allowed_flavors, self.gated

    @cached_property
    def held(self) -> Mapping[str, PodSetAdmission]:
        """What each pod set holds by its admission, without the pods that are no longer needed."""
        if self.admission is None:
            return {}
        needed = {one.name: one.pods - self.reclaimable.get(one.name, 0) for one in self.pod_sets}
        return {one.name: _shrunk(one, needed.get(one.name, one.pods)) for one in self.admission.pod_sets}

    @cached_property
    def usage(self) -> Usage:
        """What it holds by its admission."""
        found: dict[FlavorResource, int] = {}
        for one in self.held.values():
            for resource, amount in one.usage.items():
                if flavor := one.flavors.get(resource):
                    key = FlavorResource(flavor, resource)
                    found[key] = plus(found.get(key, 0), amount)
        return found

    @cached_property
    def flavor_resources(self) -> frozenset[FlavorResource]:
        """What it was given flavors of, even where it uses nothing of it."""
        return frozenset(
            FlavorResource(flavor, resource) for one in self.held.values() for resource, flavor in one.flavors.items()
        )

    def queued_at(self, *, from_timeout: bool = True) -> float:
        """Return since when it counts as waiting (workload.go GetQueueOrderTimestamp).

        `from_timeout`: a workload whose pods were not ready in time begins to wait at its eviction.
        """
        reasons = {"AdmissionCheck", "PodsReadyTimeout"} if from_timeout else {"AdmissionCheck"}
        moved = self.eviction is not None and self.eviction.reason in reasons
        return self.eviction.at if moved and self.eviction is not None else self.created


def _shrunk(one: PodSetAdmission, pods: int) -> PodSetAdmission:
    if pods >= one.pods:  # more are needed than were admitted: partial admission
        return one
    return one._replace(usage=scaled(one.usage, one.pods, pods), pods=pods)


class PriorityClass(NamedTuple):
    """A WorkloadPriorityClass."""

    name: str
    value: int


Strategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
"""When a workload may be preempted for a fairer sharing (KEP-1714, rules S2-a and S2-b)."""


class Decay(NamedTuple):
    """The configuration admissionFairSharing (KEP-4136): how what LocalQueues have used is remembered."""

    half_life: float = 0.0
    """Seconds; 0: nothing is remembered."""
    sampling: float = 300.0
    """Seconds between samples."""
    weights: Mapping[str, float] | None = None
    """By resource; 1 where it is not named."""

    def rate(self, seconds: float) -> float:
        """Return which part of what was used is forgotten within a time."""
        return 1.0 - 0.5 ** (seconds / self.half_life) if self.half_life else 0.0


class Settings(NamedTuple):
    """What is the same for all queues."""

    fair_sharing: bool = False
    strategies: tuple[Strategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    """Tried one after the other; none: these two."""
    partial_admission: bool = True
    ignore_undeclared: bool = False
    """quotaCheckStrategy IgnoreUndeclared: resources without quota are not counted."""
    from_timeout: bool = True
    """requeuingStrategy.timestamp Eviction: see Workload.queued_at."""
    place_anew: bool = True
    """TASRecomputeAssignmentWithinSchedulingCycle: where another took its places, it looks for others at once."""
    evict_unplaced: bool = True
    """TASFailedNodeReplacementFailFast: a workload whose node failed is evicted where no other is found at once."""
    decay: Decay | None = None
    """admissionFairSharing; None: no admission follows usage."""


DEFAULTS = Settings()
