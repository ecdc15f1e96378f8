"""Places that are found only after the quota is reserved (podSetTopologyRequest, NeedsSecondPass)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.queue.quota.model.queues import ClusterQueue
    from zonewise_scheduler.queue.quota.model.workload import Workload
    from zonewise_scheduler.queue.quota.places import Places

PROVISIONING = "kueue.x-k8s.io/provisioning-request"
"""The controller of checks that pass once there are nodes."""

MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""The controller of checks that find another cluster, which then places the pods."""


def is_delayed(spec: ClusterQueue, flavor: str, workload: Workload) -> bool:
    """Tell whether pods of this flavor are not to be placed yet."""
    for one in spec.checks:
        if one.controller == MULTIKUEUE:
            return True
        if one.controller == PROVISIONING and (not one.flavors or flavor in one.flavors) and workload.admission is None:
            return True
    return False


def needs_places(workload: Workload, places: Places) -> bool:
    """Tell whether a workload that has its quota has to be a head again for its places, once its checks have passed."""
    if workload.admission is None or workload.eviction is not None:
        return False
    pending = any(one.delayed == "Pending" and one.place is None for one in workload.admission.pod_sets)
    return pending or bool(places.broken(workload))
