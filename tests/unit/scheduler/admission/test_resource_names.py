"""Names of resources, classified as Kubernetes classifies them."""

from __future__ import annotations

import pytest

from zonewise_scheduler.admission.resource_names import (
    is_compute,
    is_extended_resource_name,
    is_memory,
    is_native_resource,
    is_scalar_resource_name,
)


@pytest.mark.parametrize(
    ("name", "sorts"),
    [
        ("cpu", {"compute", "native"}),
        ("memory", {"memory", "compute", "native"}),
        ("hugepages-2Mi", {"memory", "compute", "native", "scalar"}),
        ("ephemeral-storage", {"native"}),
        ("pods", {"native"}),
        ("batch", {"native"}),
        ("attachable-volumes-csi-x", {"native", "scalar"}),
        ("kubernetes.io/batch-cpu", {"native", "scalar"}),
        ("amd.com/gpu", {"extended", "scalar"}),
        ("nvidia.com/gpu", {"extended", "scalar"}),
        ("requests.example.com/x", set[str]()),
    ],
)
def test_sorts_of_resources(name: str, sorts: set[str]) -> None:
    """A name without a domain is native, as are names of kubernetes.io."""
    rules = {
        "memory": is_memory,
        "compute": is_compute,
        "native": is_native_resource,
        "extended": is_extended_resource_name,
        "scalar": is_scalar_resource_name,
    }
    assert {sort for sort, rule in rules.items() if rule(name)} == sorts
