"""The resources of a pod during an in-place resize: the kubelet's allocation counts, not the desired resources."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_scheduler.admission.pod_spec import read_pod
from zonewise_scheduler.extender.objects.allocated_resources import with_allocated_resources

Object = dict[str, Any]


def pod(cpu: str, limit: str | None = None, allocated: Object | None = None, *, kind: str = "containers") -> Object:
    """Return a pod with one interesting container, and its allocated resources."""
    resources = {"requests": {"cpu": cpu, "memory": "1Gi"}, "limits": {"cpu": limit or cpu, "memory": "1Gi"}}
    container = {"name": "c", "resources": resources, "restartPolicy": "Always"}
    spec: Object = {"containers": [{"name": "main"}]} | {kind: [container]}
    statuses = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}[kind]
    status = {} if allocated is None else {statuses: [{"name": "c", "allocatedResources": allocated}]}
    return {"metadata": {"name": "p"}, "spec": spec, "status": status}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_an_infeasible_resize(kind: str) -> None:
    """A Guaranteed container holds what is allocated to it, and remains Guaranteed; so does a sidecar."""
    resized = with_allocated_resources(pod("2", allocated={"cpu": "12", "memory": "1Gi"}, kind=kind))
    assert read_pod(resized) == read_pod(pod("12", kind=kind))


def test_a_limit_of_its_own() -> None:
    """A limit that differs from the desired request remains."""
    resized = with_allocated_resources(pod("2", "16", {"cpu": "12", "memory": "1Gi"}))
    assert read_pod(resized) == read_pod(pod("12", "16"))


@pytest.mark.parametrize("allocated", [None, {}, {"cpu": "2", "memory": "1Gi"}, {"example.com/gpu": "1"}])
def test_a_pod_that_is_not_resized(allocated: Object | None) -> None:
    """The pod itself is returned, also before its kubelet reports an allocation."""
    original = pod("2", allocated=allocated)
    assert with_allocated_resources(original) is original
