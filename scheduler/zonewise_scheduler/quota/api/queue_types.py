"""ClusterQueues, Cohorts, LocalQueues and ResourceFlavors, with the defaults of the API (apis/kueue/v1beta2)."""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Literal, NamedTuple

from zonewise_common.k8s.labels import Requirement
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_scheduler.quota.api.resource_quota import ResourceGroup

PreemptionPolicy = Literal["", "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
"""Which candidates may be preempted.

Any is not valid within a queue, and LowerOrNewerEqualPriority is not valid within a cohort. "" is a policy without the
API server's default. Like Never, it allows no candidates. But with fair sharing, a queue whose reclaimWithinCohort is
"" may preempt its own workloads while it borrows.
"""

StopPolicy = Literal["None", "Hold", "HoldAndDrain"]

NO_LABELS: Mapping[str, str] = MappingProxyType({})


class ClusterQueuePreemption(NamedTuple):
    """Policies on which workloads the workloads of a ClusterQueue may preempt."""

    within_cluster_queue: PreemptionPolicy = "Never"
    """withinClusterQueue."""
    reclaim_within_cohort: PreemptionPolicy = "Never"
    """reclaimWithinCohort: preempt workloads of queues that exceed their nominal quota."""
    borrow_within_cohort: Literal["Never", "LowerPriority"] = "Never"
    """borrowWithinCohort: preempt even while the queue itself borrows."""
    max_priority_threshold: int | None = None
    """borrowWithinCohort.maxPriorityThreshold: highest priority of the workloads preempted in that case; None: any."""

    @property
    def reclaims(self) -> bool:
        """Whether workloads of other queues may be preempted. An empty policy counts as Never."""
        return self.reclaim_within_cohort not in {"Never", ""}

    @property
    def preempts(self) -> bool:
        """Whether any workloads may be preempted."""
        return self.reclaims or self.within_cluster_queue not in {"Never", ""}


class FlavorFungibility(NamedTuple):
    """When the scan of flavors stops, and which flavor it prefers if it does not stop."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] = "BorrowingOverPreemption"


class AdmissionCheck(NamedTuple):
    """An AdmissionCheck, as far as it decides about the queues that require it."""

    name: str
    controller_name: str
    """spec.controllerName."""
    is_active: bool
    """Whether its controller serves it, from the condition Active."""


AdmissionCheckStatus = Literal["Active", "Inactive", "NotFound"]


class AdmissionCheckStrategyRule(NamedTuple):
    """An admission check that a ClusterQueue requires."""

    name: str
    on_flavors: frozenset[str] = frozenset()
    """The check applies only to workloads with one of these flavors; if empty, to all."""
    controller_name: str = ""
    """spec.controllerName of the AdmissionCheck; "" if unknown."""
    status: AdmissionCheckStatus = "Active"
    """A queue with an inactive check admits nothing."""


class ClusterQueue(NamedTuple):
    """A queue with quotas."""

    name: str
    resource_groups: tuple[ResourceGroup, ...] = ()
    cohort_name: str = ""
    """Name of the cohort; "" if it is in none."""
    queueing_strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    preemption: ClusterQueuePreemption = ClusterQueuePreemption()
    flavor_fungibility: FlavorFungibility = FlavorFungibility()
    fair_weight: float = 1.0
    """fairSharing.weight."""
    stop_policy: StopPolicy = "None"
    namespace_selector: tuple[Requirement, ...] | None = ()
    """Requirements on the labels of a workload's namespace; empty selects all namespaces, None selects none."""
    admission_checks: tuple[AdmissionCheckStrategyRule, ...] = ()
    usage_based_admission: bool = False
    """admissionScope UsageBasedAdmissionFairSharing: the LocalQueue with the least usage comes first."""
    default_walltime: float = inf
    """Walltime, in seconds, of workloads that declare none."""
    advance_reservations: bool = False
    """Whether workloads with a begin time hold a reservation before that time (begin_time.py)."""


class Cohort(NamedTuple):
    """A group of ClusterQueues and Cohorts that lend to each other; it may have its own quotas."""

    name: str
    parent_name: str = ""
    """Name of the parent; "" for a root."""
    resource_groups: tuple[ResourceGroup, ...] = ()
    fair_weight: float = 1.0


class LocalQueue(NamedTuple):
    """The queue that users of a namespace submit to; it points to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop_policy: StopPolicy = "None"
    fair_weight: float = 1.0
    default_walltime: float = inf
    """Overrides that of the ClusterQueue."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class ResourceFlavor(NamedTuple):
    """A kind of nodes."""

    name: str
    node_labels: Mapping[str, str] = NO_LABELS
    node_taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    """Tolerations that are added to those of the pods."""
    topology_name: str = ""
    """topologyName; "" if kube-scheduler chooses the nodes."""


class Topology(NamedTuple):
    """A Topology: the levels of nodes as label keys, highest first."""

    name: str
    levels: tuple[str, ...]
    """Empty if the object is invalid."""
