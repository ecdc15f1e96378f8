"""Limits of the pods that are judged."""

from __future__ import annotations

from support.fit_nodes import GPU, container, pod
from zonewise_scheduler.extender.objects.pod_limits import MAX_CONTAINERS, MAX_REQUESTS, may_be_aligned, size_problem


def test_pods_that_may_be_aligned() -> None:
    """Kubelets may align Guaranteed pods and pods with devices."""
    assert may_be_aligned(pod(container(cpus=1, gib=1)))
    assert may_be_aligned(pod(container(devices={GPU: 1}), qos="Burstable"))
    assert not may_be_aligned(pod(container(cpus=1), qos="Burstable"))


def test_the_error_states_the_limit() -> None:
    """The largest pods pass; the error for a larger pod states the limit. Pods that no kubelet aligns have no limit."""
    containers = [container(f"c{number}", cpus=1, gib=1, role="init") for number in range(MAX_CONTAINERS - 1)]
    assert size_problem(pod(*containers, container(cpus=1, gib=1))) == ""
    larger = pod(*containers, container(cpus=1, gib=1), container("d"))
    assert size_problem(larger) == "pod(s) with 25 containers: zonewise supports at most 24"
    assert size_problem(larger._replace(qos="Burstable")) == ""
    wide = container(cpus=1, gib=1, devices={f"example.com/d{number}": 1 for number in range(MAX_REQUESTS - 2)})
    assert size_problem(pod(wide)) == ""
    assert (
        size_problem(pod(wide, container("b")))
        == "pod(s) with 257 requests of resources: zonewise supports at most 256"
    )
