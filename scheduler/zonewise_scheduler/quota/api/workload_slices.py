"""Workload slices: the Workloads of an elastic job, one after another (KEP-77, pkg/workloadslicing/workloadslicing.go).

A job that grows while it runs gets a second Workload, a slice, for all its pods. The old slice keeps its quota until
the new one has its own. Then the old one is Finished, and the new one covers all pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ELASTIC_ANNOTATION = "kueue.x-k8s.io/elastic-job"
"""Marks an elastic job and its Workloads if it is "true"."""
ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
"""The scheduling gate that holds a pod of an elastic job until a slice has quota for it."""
REPLACEMENT_ANNOTATION = "kueue.x-k8s.io/workload-slice-replacement-for"
"""Key of the slice that a slice replaces."""
SLICE_NAME_ANNOTATION = "kueue.x-k8s.io/workload-slice-name"
"""Name of the first slice of a job, on its slices and its pods."""


def replaced_key(namespace: str, annotations: Mapping[str, str]) -> str:
    """Return the key of the slice that a Workload replaces; "": none, or one in another namespace."""
    key = annotations.get(REPLACEMENT_ANNOTATION, "")
    return key if key.partition("/")[0] == namespace else ""
