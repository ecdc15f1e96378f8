"""Releases the places of the pods that an elastic job gives up (pkg/util/tas/tas_assignment.go TruncateAssignment).

An elastic Job removes the pods with the highest indexes, and an assignment lists its domains in the order of ranks. So
the assignment keeps its first pods. Removed pods that still run elsewhere count as usage of their nodes until they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.quota.topology.assignment_reader import read_topology_assignment
from zonewise_scheduler.quota.topology.assignment_writer import write_topology_assignment
from zonewise_scheduler.tas.tree.topology_assignments import truncate_assignment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json


def shrink_placement(workload: Mapping[str, object], pods: Mapping[str, int]) -> Json | None:
    """Return the patch that limits each topology assignment to the pods that its pod set still has.

    None: no assignment is larger. `pods`: by pod set. A pod set without pods keeps its assignment, since its job ends.
    Raises FieldError for an invalid assignment.
    """
    admitted = FieldReader(workload, "", []).child("status").child("admission").children("podSetAssignments")
    items = [(item.obj, _shrunk(item, pods.get(item.text("name", "main"), 0))) for item in admitted]
    if all(shrunk is None for _, shrunk in items):
        return None
    return {"status": {"admission": {"podSetAssignments": [shrunk or item for item, shrunk in items]}}}


def _shrunk(item: FieldReader, pods: int) -> Json | None:
    """Return a pod set's assignment with fewer pods in its placement; None: it needs no change."""
    field = "topologyAssignment"
    if not item.has(field) or not 0 < pods < (item.count("count") or 0):
        return None
    assignment = read_topology_assignment(item.child(field).obj)
    if pods >= assignment.pod_count:
        return None
    return {**item.obj, field: write_topology_assignment(truncate_assignment(assignment, pods))}
