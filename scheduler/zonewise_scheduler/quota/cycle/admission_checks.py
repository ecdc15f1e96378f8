"""Admission checks: what else than quota a workload needs before it starts (pkg/util/admissioncheck, KEP-993)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Admission


def admission_checks_for_workload(spec: ClusterQueue, admission: Admission) -> tuple[str, ...]:
    """Return the checks that a workload with this admission must pass: some are of certain flavors only."""
    flavors = {name for one in admission.pod_sets for name in one.flavors.values()}
    return tuple(
        one.name for one in spec.admission_checks if not one.on_flavors or not one.on_flavors.isdisjoint(flavors)
    )
