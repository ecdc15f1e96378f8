"""The nodes as the controller needs them: changes for the planner, failed nodes of workloads, and names by hostname."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.controller.nodes.held_devices import HeldDevices
from zonewise_scheduler.controller.nodes.idle_nodes import IdleNodes
from zonewise_scheduler.controller.nodes.node_failures import closes_at, find_node_failures, tolerates_taints
from zonewise_scheduler.controller.nodes.node_tracker import NodeTracker
from zonewise_scheduler.controller.nodes.placements import PlacedPodSets, placement_of
from zonewise_scheduler.nodes.devices.provided_devices import ProvidedDevices, with_devices
from zonewise_scheduler.nodes.node.avoided_conditions import without_avoided_conditions
from zonewise_scheduler.nodes.node.node_info import read_node_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.k8s.taints import Taint, Toleration
    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.controller.nodes.types import NodeHealth, TrackedNode, TrackedPod
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim
    from zonewise_scheduler.nodes.devices.provided_devices import DeviceResource
    from zonewise_scheduler.nodes.devices.resource_slices import ResourceSlice
    from zonewise_scheduler.nodes.node.node_info import NodeInfo
    from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
    from zonewise_scheduler.quota.api.workload_types import Workload


_OBJECT = msgspec.json.Decoder(dict[str, Any])


class NodeRevision(NamedTuple):
    """A node that has changed."""

    node: TrackedNode
    pods: Mapping[str, tuple[TrackedPod, ...]]
    """The active pods on the node, by their key in nrt.holdings."""


class NodeRevisions(NamedTuple):
    """The nodes at a revision, as the planner knows them."""

    revision: int
    names: frozenset[str]
    """Names of all nodes."""
    changed: list[NodeRevision]
    """Nodes that have changed since an earlier revision."""


class NodeView:
    """Combines the tracker with hostnames, node details and placements. See the module docstring."""

    def __init__(self) -> None:
        self.tracker = NodeTracker()
        self.names_by_hostname: dict[str, str] = {}
        self._hostnames: dict[str, str] = {}
        self._nodes: dict[str, TrackedNode] = {}
        self._devices = ProvidedDevices()
        self._held_devices = HeldDevices(self.tracker)
        self._contents_with_devices: dict[str, str] = {}
        """Contents of the nodes that provide devices of DeviceClasses, as the planner is fed them."""
        self._stale: set[str] | None = set()
        """Nodes whose devices may have changed; None: all of them."""
        self._infos: dict[str, NodeInfo | None] = {}
        """Nodes that were read, without their pods; None: a field is invalid."""
        self._checked_revision = -1
        self._checked_flavors: tuple[ResourceFlavor, ...] | None = None
        self._placed: dict[str, PlacedPodSets] = {}
        """Placements by workload, with the hostnames of their nodes."""
        self._placements_changed = False
        self._avoided: dict[str, set[str]] = {}
        """By workload, the nodes on which none of its pods may start."""
        self._avoided_changed = False
        self._idle_nodes = IdleNodes(self._bound_pods)
        self._closing: dict[str, float] = {}
        """When nodes that are not Ready close, in seconds since 1970."""

    def observe_node(self, name: str, node: TrackedNode | None) -> None:
        """Record a Node; None: it was deleted."""
        self._set_hostname(name, None if node is None else node.hostname)
        previous = self._nodes.get(name)
        if previous is not None and (node is None or previous.content != node.content):
            self._infos.pop(name, None)
        self._closing.pop(name, None)
        if node is None:
            self._nodes.pop(name, None)
            self._contents_with_devices.pop(name, None)
            self.tracker.observe_node(name, None)
        else:
            self._nodes[name] = node
            if previous is None or previous.content != node.content:
                self._count_devices(name)
            self._track(name)
            if (at := closes_at(node.health)) is not None:
                self._closing[name] = at

    def set_device_resources(self, resources: tuple[DeviceResource, ...]) -> None:
        """Set the resources of all DeviceClasses."""
        if self._devices.set_resources(resources):
            self._stale = None
            self._held_devices.mark_all()

    def observe_claim(self, namespace: str, name: str, claim: AllocatedClaim | None) -> None:
        """Record a ResourceClaim; None: it was deleted."""
        self._held_devices.observe_claim(namespace, name, claim)

    def observe_pod(self, namespace: str, name: str, pod: TrackedPod | None) -> TrackedPod | None:
        """Record a pod; None: it was deleted. Return its previous active state, as NodeTracker does."""
        before = self.tracker.observe_pod(namespace, name, pod)
        self._held_devices.mark_pod(namespace, name)
        return before

    def observe_slice(self, name: str, new: ResourceSlice | None) -> None:
        """Record a ResourceSlice; None: it was deleted."""
        changed = self._devices.observe_slice(name, new)
        if changed is None:
            self._stale = None
        elif self._stale is not None:
            self._stale |= changed

    def end_slice_listing(self) -> None:
        """Record that all ResourceSlices have been observed."""
        if self._devices.end_listing():
            self._stale = None

    def _count_devices(self, name: str) -> None:
        """Store the content of a node with its devices. An invalid amount or slice leaves the node as it is."""
        self._contents_with_devices.pop(name, None)
        content = self._nodes[name].content
        if not self._devices.may_provide(name):
            return
        obj = _OBJECT.decode(content)
        try:
            counts = self._devices.counts(name, obj["metadata"]["labels"], self._held_devices.held)
            counted = self._held_devices.counted(name)
            with_them = with_devices(obj, {each: count + counted.get(each, 0) for each, count in counts.items()})
        except ValueError:  # the API server accepts no such slice
            return
        if with_them is not obj:
            self._contents_with_devices[name] = msgspec.json.encode(with_them).decode()

    def _track(self, name: str) -> None:
        node, content = self._nodes[name], self._contents_with_devices.get(name)
        self.tracker.observe_node(name, node if content is None else node._replace(content=content))

    def _refresh_devices(self) -> None:
        """Count the devices of the nodes again for which they may have changed."""
        pools, nodes = self._held_devices.update(self._devices.resources)
        stale, self._stale = self._stale, set()
        if stale is not None:
            stale = stale.union(nodes, *map(self._devices.nodes_of, pools))
        for name in self._nodes if stale is None else stale & self._nodes.keys():
            before = self._contents_with_devices.get(name)
            self._count_devices(name)
            if self._contents_with_devices.get(name) != before:
                self._track(name)

    def _set_hostname(self, name: str, hostname: str | None) -> None:
        """Set the hostname by which placements identify a node: its label, which may differ from its name."""
        previous = self._hostnames.pop(name, None)
        if previous is not None and self.names_by_hostname.get(previous) == name:
            del self.names_by_hostname[previous]
        if hostname is not None:
            self._hostnames[name], self.names_by_hostname[hostname] = hostname, name
        if previous != hostname and not {previous, hostname} <= {name, None}:
            for key, placement in self._placed.items():
                self.tracker.set_placement(key, self._by_name(placement))
            self._held_devices.mark_all()

    def _by_name(self, placement: PlacedPodSets) -> PlacedPodSets:
        """Return a placement with the names of its nodes. A hostname that belongs to no node is used as the name."""
        names = self.names_by_hostname
        nodes = {
            pod_set: None if hostnames is None else frozenset(names.get(hostname, hostname) for hostname in hostnames)
            for pod_set, hostnames in placement.nodes.items()
        }
        return placement._replace(nodes=nodes)

    def node_info(self, name: str) -> NodeInfo | None:
        """Return a ready node with the requests of all its pods; None: it is not ready, unknown, or invalid.

        Conditions that gangs avoid do not count: they affect placements, which are already decided here.
        """
        node = self._nodes.get(name)
        if node is None or not node.health.ready:
            return None
        if name not in self._infos:
            try:
                info = without_avoided_conditions(read_node_info(_OBJECT.decode(node.content)))
            except FieldError:
                info = None
            self._infos[name] = info
        info = self._infos[name]
        return None if info is None else info._replace(requested=self.tracker.requested(name))

    def revised_since(self, revision: int) -> NodeRevisions:
        """Return the changes since a revision; 0: since the start."""
        names = [name for name, each in self.tracker.revisions.items() if each > revision and name in self._nodes]
        changed = [NodeRevision(self._nodes[name], self.tracker.pods_by_key(name)) for name in names]
        return NodeRevisions(self.tracker.revision, frozenset(self.tracker.revisions), changed)

    def set_placement(self, key: str, workload: Workload | None) -> None:
        """Record where the pods of a workload are placed; None: it no longer has quota."""
        placement = None if workload is None else placement_of(workload)
        self.tracker.set_placement(key, None if placement is None else self._by_name(placement))
        for pod in self.tracker.pods_of(key):
            self._held_devices.mark_pod(*pod)
        if placement is None:
            self._idle_nodes.forget(key, self._placed.pop(key, PlacedPodSets({})).nodes.keys())
        else:
            self._placed[key] = placement
            self._placements_changed = True

    def feed(self, feed: PlannerFeed) -> bool:
        """Feed the planner what has changed, and return whether anything has."""
        self._refresh_devices()
        changes = self.tracker.take_changes()
        if changes:
            feed.change_nodes(changes)
        return bool(changes)

    @property
    def check_at(self) -> float:
        """Return when nodes must be checked again if nothing changes; infinite: never."""
        return 0.0 if self._avoided_changed else min(self._closing.values(), default=inf)

    def take_changed(self, now: float) -> set[str]:
        """Return the nodes that have closed since the last call, or have changed so that they may take more pods."""
        closed = {name for name, at in self._closing.items() if at <= now}
        for name in closed:
            del self._closing[name]
        return self.tracker.take_relieved() | closed

    def unhealthy_nodes(self, feed: PlannerFeed, now: float) -> dict[str, tuple[str, ...]]:
        """Return the new list of unhealthy nodes, as hostnames, by key of each workload whose list must change."""
        revision, flavors = self.tracker.health_revision, feed.state.configuration.flavors
        is_checked = revision == self._checked_revision and flavors is self._checked_flavors
        if is_checked and not self._placements_changed and not self._avoided_changed:
            return {}
        self._checked_revision, self._checked_flavors = revision, flavors
        self._placements_changed = self._avoided_changed = False
        self._avoided = {
            key: names for key, nodes in self._avoided.items() if (names := self._still_avoided(feed, now, key, nodes))
        }
        health = {self._hostnames.get(name, name): each for name, each in self.tracker.health.items()}
        avoided = {key: {self._hostnames.get(name, name) for name in names} for key, names in self._avoided.items()}
        workloads, tolerations = self._placed_workloads(feed), _flavor_tolerations(feed)
        return find_node_failures(health, workloads, self._idle_nodes, tolerations, avoided)

    def _bound_pods(self, workload: str) -> list[tuple[str, str]]:
        """Return the pod set and the hostname of each active pod of a workload that is bound to an existing node."""
        hostnames = self._hostnames
        pods = self.tracker.bound_pods(workload)
        return [(pod.pod_set, hostnames[pod.node]) for pod in pods if pod.node in hostnames]

    def avoids(self, feed: PlannerFeed, workload: str, pod_set: str, node: str) -> bool:
        """Return whether the pods of a workload with quota avoid a node because of one of its current conditions.

        A single pod avoids none.
        """
        health = self.tracker.health.get(node)
        return health is not None and not self._tolerates(feed, workload, pod_set, health.avoided)

    def is_closed(self, feed: PlannerFeed, now: float, workload: str, pod_set: str, node: str) -> bool:
        """Return whether no further pod of a workload with quota may be bound to a node.

        The node is tainted or cordoned, or has not been Ready for a while.
        """
        health = self.tracker.health.get(node)
        if health is None:
            return False
        return _is_unready(health, now) or not self._tolerates(feed, workload, pod_set, health.closing)

    def _tolerates(self, feed: PlannerFeed, workload: str, pod_set: str, taints: tuple[Taint, ...]) -> bool:
        running = feed.state.running.get(workload)
        if not taints or running is None:
            return True
        return tolerates_taints(running.workload, pod_set, taints, _flavor_tolerations(feed))

    def avoid(self, workload: str, node: str) -> None:
        """Count a node as failed for a workload until its pods there neither avoid the node nor find it closed."""
        nodes = self._avoided.setdefault(workload, set())
        if node not in nodes and self._pod_sets_on(workload, node):
            nodes.add(node)
            self._avoided_changed = True

    def _still_avoided(self, feed: PlannerFeed, now: float, workload: str, nodes: set[str]) -> set[str]:
        return {
            node
            for node in nodes
            for pod_set in self._pod_sets_on(workload, node)
            if self.avoids(feed, workload, pod_set, node) or self.is_closed(feed, now, workload, pod_set, node)
        }

    def _pod_sets_on(self, workload: str, node: str) -> list[str]:
        """Return the pod sets of a workload that the planner has placed on a node."""
        placement = self._placed.get(workload)
        placed = {} if placement is None else self._by_name(placement).nodes
        return [pod_set for pod_set, names in placed.items() if node in (names or ())]

    def _placed_workloads(self, feed: PlannerFeed) -> Iterable[Workload]:
        running = feed.state.running
        return [running[key].workload for key in self._placed if key in running]


def _is_unready(health: NodeHealth, now: float) -> bool:
    """Return whether a node has not been Ready for so long that it is closed."""
    at = closes_at(health)
    return at is not None and at <= now


def _flavor_tolerations(feed: PlannerFeed) -> Mapping[str, tuple[Toleration, ...]]:
    return {flavor.name: flavor.tolerations for flavor in feed.state.configuration.flavors or ()}
