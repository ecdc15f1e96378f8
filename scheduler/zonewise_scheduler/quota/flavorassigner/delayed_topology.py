"""Places that are found only after the quota is reserved (podSetTopologyRequest, NeedsSecondPass)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise_scheduler.quota.api.queue_types import ClusterQueue
    from zonewise_scheduler.quota.api.workload_types import Workload
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot

PROVISIONING_REQUEST_CONTROLLER = "kueue.x-k8s.io/provisioning-request"
"""The controller of checks that pass once there are nodes."""

MULTIKUEUE_CONTROLLER = "kueue.x-k8s.io/multikueue"
"""The controller of checks that find another cluster, which then places the pods."""


def is_topology_request_delayed(spec: ClusterQueue, flavor: str, workload: Workload) -> bool:
    """Tell whether pods of this flavor are not to be placed yet."""
    for one in spec.admission_checks:
        if one.controller_name == MULTIKUEUE_CONTROLLER:
            return True
        if (
            one.controller_name == PROVISIONING_REQUEST_CONTROLLER
            and (not one.on_flavors or flavor in one.on_flavors)
            and workload.admission is None
        ):
            return True
    return False


def needs_second_pass(workload: Workload, tas_snapshot: TopologySnapshot) -> bool:
    """Tell whether a workload that has its quota has to be a head again for its places, once its checks have passed."""
    if workload.admission is None or workload.eviction is not None:
        return False
    pending = any(
        one.delayed_topology_request == "Pending" and one.topology_assignment is None
        for one in workload.admission.pod_sets
    )
    return pending or bool(tas_snapshot.pod_sets_on_unhealthy_nodes(workload))
