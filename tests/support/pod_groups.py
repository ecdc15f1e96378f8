"""PodGroups: the custom resource, and objects of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

POD_GROUP_CRD = Path(__file__).parents[2] / "manifests/scheduler/components/pod-groups/podgroups.yaml"


def pod_group(name: str, min_member: int) -> dict[str, Any]:
    """Return a PodGroup of scheduling.x-k8s.io."""
    return {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": min_member},
    }
