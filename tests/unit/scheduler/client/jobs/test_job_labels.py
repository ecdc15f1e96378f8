"""Names that the client repeats match those of the planner and the controller."""

from __future__ import annotations

from zonewise_scheduler.client.jobs import job_labels, pod_facts
from zonewise_scheduler.controller.pods.pod_names import WORKLOAD_ANNOTATION
from zonewise_scheduler.controller.workloads.manifest import JOB_UID_LABEL
from zonewise_scheduler.nodes.node.kubelet_rejection import is_kubelet_rejection
from zonewise_scheduler.quota.api import job_pod_sets, job_priority


def test_names_match_the_planner() -> None:
    assert job_labels.QUEUE_LABEL == job_pod_sets.QUEUE_LABEL
    assert job_labels.REQUIRED_TOPOLOGY == job_pod_sets.REQUIRED_TOPOLOGY
    assert job_labels.PRIORITY_CLASS_LABEL == job_priority.PRIORITY_CLASS_LABEL
    assert job_labels.JOB_NAME_LABEL in job_pod_sets.JOB_CONTROLLER_LABELS


def test_names_match_the_controller() -> None:
    assert job_labels.JOB_UID_LABEL == JOB_UID_LABEL
    assert pod_facts.WORKLOAD_ANNOTATION == WORKLOAD_ANNOTATION
    for reason in ("TopologyAffinityError", "SMTAlignmentError", "OutOfcpu", "Evicted", "", "UnexpectedAdmissionError"):
        pod = pod_facts.PodFacts("ns", "p", "n", "Failed", {}, reason=reason)
        assert pod.is_rejected is is_kubelet_rejection("Failed", reason), reason
