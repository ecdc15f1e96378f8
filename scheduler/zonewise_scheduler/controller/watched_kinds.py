"""The kinds of objects that the controller watches, and the inbox messages for their changes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.resources import (
    ALPHA_POD_GROUPS,
    IN_TREE_POD_GROUPS,
    JOBS,
    NODE_FEATURE_GROUPS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    WORKLOADS,
)
from zonewise_scheduler.controller.admissionchecks.provisioning_reconciler import WATCHED as PROVISIONING_KINDS
from zonewise_scheduler.controller.informers import WatchedKind, watched_objects
from zonewise_scheduler.controller.loop import (
    ClaimObservation,
    Listing,
    NodeObservation,
    Observation,
    PodObservation,
    ReportObservation,
    SliceObservation,
)
from zonewise_scheduler.controller.nodes.group_members import decode_group
from zonewise_scheduler.controller.nodes.observed_objects import decode_node, decode_report
from zonewise_scheduler.controller.observed_pod import decode_observed_pod
from zonewise_scheduler.controller.planning.configuration import OPTIONAL_RESOURCES, RESOURCES
from zonewise_scheduler.controller.pods.group_owner import GROUP_RESOURCES
from zonewise_scheduler.nodes.devices.allocated_claims import decode_claim
from zonewise_scheduler.nodes.devices.resource_slices import decode_slice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.jobs.interface import JobAdapter
    from zonewise_scheduler.controller.loop import Message
    from zonewise_scheduler.controller.nodes.types import TrackedNode, TrackedReport
    from zonewise_scheduler.controller.observed_pod import WatchedPod
    from zonewise_scheduler.controller.types import Json, ObjectKey
    from zonewise_scheduler.controller.writing.group_status_writer import GroupStatusWriter
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim
    from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice


_OLDER = {IN_TREE_POD_GROUPS: (ALPHA_POD_GROUPS,)}
"""Older versions of a kind with the same fields."""


class WatchedKinds(NamedTuple):
    """The kinds that an informer watches."""

    required: list[WatchedKind]
    """Kinds that every cluster has."""
    optional: list[WatchedKind]
    """Kinds that may be missing in a cluster."""


def watched_kinds(
    adapters: Iterable[JobAdapter],
    put: Callable[[Message], object],
    groups: GroupStatusWriter,
    avoided: tuple[str, ...],
) -> WatchedKinds:
    """Return the watched kinds. `put` takes their changes, except those of node groups, which `groups` takes.

    `avoided`: types of conditions that keep gangs away from a node.
    """

    def put_object(key: ObjectKey, obj: Json | None) -> None:
        put(Observation(key, obj))

    def put_node(old: TrackedNode | None, new: TrackedNode | None) -> None:
        if (node := new or old) is not None:
            put(NodeObservation(node.name, new))
            groups.observe_node(node.name, new)

    def put_report(old: TrackedReport | None, new: TrackedReport | None) -> None:
        if (report := new or old) is not None:
            put(ReportObservation(report.node, new))

    def put_pod(old: WatchedPod | None, new: WatchedPod | None) -> None:
        if (pod := new or old) is not None:
            put(PodObservation(pod.tracked.namespace, pod.tracked.name, new))

    def put_listing(resource: Resource, version: int) -> None:
        put(Listing(resource, version))

    def objects_of(*resources: Resource) -> list[WatchedKind]:
        kinds = [watched_objects(resource, put_object, put_listing) for resource in resources]
        return [kind._replace(older=_OLDER.get(kind.resource, ())) for kind in kinds]

    nodes = WatchedKind(NODES, partial(decode_node, avoided=avoided), put_node)
    pods = WatchedKind(PODS, decode_observed_pod, put_pod)
    reports = WatchedKind(NODE_RESOURCE_TOPOLOGIES, decode_report, put_report)
    feature_groups = WatchedKind(NODE_FEATURE_GROUPS, decode_group, groups.observe_group)
    jobs = (adapter.resource for adapter in adapters if adapter.resource != JOBS)
    return WatchedKinds(
        [*objects_of(*RESOURCES, WORKLOADS, JOBS), nodes, pods],
        [
            *objects_of(*jobs, *GROUP_RESOURCES, *OPTIONAL_RESOURCES, *PROVISIONING_KINDS),
            reports,
            _slices(put),
            _claims(put),
            feature_groups,
        ],
    )


def _slices(put: Callable[[Message], object]) -> WatchedKind:
    def put_slice(old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if (observed := new or old) is not None:
            put(SliceObservation(observed.name, new))

    def put_listing(version: int) -> None:
        put(Listing(RESOURCE_SLICES, version))

    return WatchedKind(RESOURCE_SLICES, decode_slice, put_slice, put_listing)


def _claims(put: Callable[[Message], object]) -> WatchedKind:
    def put_claim(old: AllocatedClaim | None, new: AllocatedClaim | None) -> None:
        if (observed := new or old) is not None:
            put(ClaimObservation(observed.namespace, observed.name, new))

    return WatchedKind(RESOURCE_CLAIMS, decode_claim, put_claim)
