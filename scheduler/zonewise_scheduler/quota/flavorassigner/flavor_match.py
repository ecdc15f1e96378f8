"""Whether pods may go to the nodes of a flavor: taints, node labels, topology (checkFlavorForPodSets)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.taints import find_matching_untolerated_taint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.k8s.labels import Requirement
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.resource_quota import ResourceGroup
    from zonewise_scheduler.quota.api.workload_types import PodSet
    from zonewise_scheduler.quota.hierarchy.topology_snapshot import TopologySnapshot


def check_flavor_for_pod_set(pod_set: PodSet, flavor: ResourceFlavor) -> str:
    """Return why the pods may not go to a flavor's nodes, "" if they may.

    The flavor's labels are all that is known of its nodes: what is required of other labels is not looked at, and a
    term of the node affinity that is of other labels alone makes the affinity hold.
    """
    taint = find_matching_untolerated_taint(flavor.node_taints, (*pod_set.tolerations, *flavor.tolerations))
    if taint is not None:
        return f"taint {taint} is not tolerated"
    if not _selects(pod_set, flavor.node_labels):
        return "the node selector or affinity asks for other labels"
    return ""


def check_pod_set_and_flavor_match_for_tas(
    pod_set: PodSet, flavor: ResourceFlavor, group: ResourceGroup, tas_snapshot: TopologySnapshot, *, is_tas_only: bool
) -> str:
    """Return why a flavor's topology does not suit the pods, "" if it does.

    `everywhere`: all flavors of the queue have topologies, and all pods are placed, asked for or not. A flavor without
    topology suits pods that are to be placed where it gives none of what they request of nodes.
    """
    request = pod_set.topology
    if request is None or not request.explicit:
        return "" if is_tas_only or not flavor.topology_name else "its nodes are for pods that ask for placement"
    if not flavor.topology_name:
        return "" if group.covered_resources.isdisjoint(pod_set.requests_on_node) else "it has no topology"
    if not tas_snapshot.has_topology(flavor.name):
        return "its topology is not known"
    return "" if tas_snapshot.has_level(flavor.name, request) else "its topology lacks the level that is asked for"


def _selects(pod_set: PodSet, labels: Mapping[str, str]) -> bool:
    if not _hold((one for one in pod_set.selector if one.key in labels), labels):
        return False
    if pod_set.terms is None:
        return True
    kept = [[one for one in term.match_expressions if one.key in labels] for term in pod_set.terms]
    return not all(kept) or any(_hold(term, labels) for term in kept)


def _hold(requirements: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    return all(one.matches(labels.get(one.key)) for one in requirements)
