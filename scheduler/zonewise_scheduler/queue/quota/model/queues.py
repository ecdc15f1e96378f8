"""ClusterQueues, Cohorts, LocalQueues and ResourceFlavors, with the defaults of kueue.x-k8s.io/v1beta2."""

from collections.abc import Mapping
from math import inf
from types import MappingProxyType
from typing import Literal, NamedTuple

from zonewise_scheduler.fit.nodes.selectors import Requirement
from zonewise_scheduler.fit.nodes.taints import Taint, Toleration
from zonewise_scheduler.queue.quota.model.quotas import ResourceGroup

PreemptionPolicy = Literal["", "Never", "LowerPriority", "LowerOrNewerEqualPriority", "Any"]
"""Which candidates may be preempted; within a queue never Any, in the cohort never LowerOrNewerEqualPriority. "" is
what no API server has defaulted: nobody, as Never, but it does not keep a queue that borrows from preempting its own.
"""

Stop = Literal["None", "Hold", "HoldAndDrain"]

NOTHING: Mapping[str, str] = MappingProxyType({})


class Preemption(NamedTuple):
    """Whom the workloads of a ClusterQueue may preempt."""

    within: PreemptionPolicy = "Never"
    """withinClusterQueue."""
    reclaim: PreemptionPolicy = "Never"
    """reclaimWithinCohort: workloads of queues that are over their nominal quota."""
    borrow: Literal["Never", "LowerPriority"] = "Never"
    """borrowWithinCohort: also while the queue itself borrows."""
    threshold: int | None = None
    """borrowWithinCohort.maxPriorityThreshold: then only workloads of at most this priority; None: no such limit."""


class Fungibility(NamedTuple):
    """When the scan of flavors stops, and which of those seen is taken where it does not."""

    when_can_borrow: Literal["MayStopSearch", "TryNextFlavor"] = "MayStopSearch"
    when_can_preempt: Literal["MayStopSearch", "TryNextFlavor"] = "TryNextFlavor"
    preference: Literal["BorrowingOverPreemption", "PreemptionOverBorrowing"] = "BorrowingOverPreemption"


class CheckRule(NamedTuple):
    """An admission check that a ClusterQueue asks for."""

    name: str
    flavors: frozenset[str] = frozenset()
    """Only for workloads with one of these; empty: for all."""
    controller: str = ""
    """spec.controllerName of the AdmissionCheck; "": it is not known."""


class ClusterQueue(NamedTuple):
    """A queue with quotas."""

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    """"": none."""
    strategy: Literal["StrictFIFO", "BestEffortFIFO"] = "BestEffortFIFO"
    preemption: Preemption = Preemption()
    fungibility: Fungibility = Fungibility()
    weight: float = 1.0
    """fairSharing.weight."""
    stop: Stop = "None"
    namespaces: tuple[Requirement, ...] | None = ()
    """On the labels of a workload's namespace; empty: all namespaces; None: no namespace."""
    checks: tuple[CheckRule, ...] = ()
    by_usage: bool = False
    """admissionScope UsageBasedAdmissionFairSharing: the LocalQueue with the least usage first."""
    default_limit: float = inf
    """Declared run time, in seconds, of workloads that declare none."""


class Cohort(NamedTuple):
    """A group of ClusterQueues and Cohorts that lend to each other, with quotas of its own."""

    name: str
    parent: str = ""
    """"": it is a root."""
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0


class LocalQueue(NamedTuple):
    """What users of a namespace name; it leads to a ClusterQueue."""

    namespace: str
    name: str
    cluster_queue: str
    stop: Stop = "None"
    weight: float = 1.0
    default_limit: float = inf
    """Before that of the ClusterQueue."""

    @property
    def key(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}/{self.name}"


class ResourceFlavor(NamedTuple):
    """A kind of nodes."""

    name: str
    labels: Mapping[str, str] = NOTHING
    taints: tuple[Taint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    """Added to the pods'."""
    topology: str = ""
    """topologyName; "": placement is kube-scheduler's."""
