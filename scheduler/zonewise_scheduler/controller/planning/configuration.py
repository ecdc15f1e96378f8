"""The objects that configure the queue: queues, flavors, topologies, checks, namespaces, classes, LimitRanges, claims.

Only fields that have an effect count: the planner is not fed when a status changes, except that of a check.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from zonewise_common.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    DEVICE_CLASSES,
    LIMIT_RANGES,
    LOCAL_QUEUES,
    NAMESPACES,
    PRIORITY_CLASSES,
    PROVISIONING_REQUEST_CONFIGS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    RUNTIME_CLASSES,
    TOPOLOGIES,
    WORKLOAD_PRIORITY_CLASSES,
)
from zonewise_scheduler.controller.cluster_cache import object_version, observed_labels, uid_of
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.conditions import is_true
from zonewise_scheduler.nodes.devices.provided_devices import DeviceResource, device_resources
from zonewise_scheduler.quota.api.job_priority import PriorityClasses
from zonewise_scheduler.quota.api.pod_defaults import PodDefaults, build_pod_defaults

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
    from zonewise_scheduler.controller.types import Json
    from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim

_FIELDS: Mapping[Resource, str] = {
    CLUSTER_QUEUES: "clusterQueues",
    COHORTS: "cohorts",
    RESOURCE_FLAVORS: "resourceFlavors",
    LOCAL_QUEUES: "localQueues",
    TOPOLOGIES: "topologies",
    ADMISSION_CHECKS: "admissionChecks",
}
"""Field of the planner's entry, by resource."""
DEFAULT_QUEUE = "default"
"""Name of the LocalQueue for jobs that specify none."""
_CLASSES = (WORKLOAD_PRIORITY_CLASSES, PRIORITY_CLASSES)
RESOURCES = (*_FIELDS, NAMESPACES, *_CLASSES)
_POD_DEFAULTS = (LIMIT_RANGES, RUNTIME_CLASSES, RESOURCE_CLAIM_TEMPLATES)
OPTIONAL_RESOURCES = (PROVISIONING_REQUEST_CONFIGS, DEVICE_CLASSES, *_POD_DEFAULTS)
"""Kinds that may be missing in a cluster, or that the controller may not be allowed to list."""
_DEVICES = frozenset({RESOURCE_CLAIM_TEMPLATES, DEVICE_CLASSES, RESOURCE_SLICES})
_BY_NAME = frozenset({RESOURCE_FLAVORS, ADMISSION_CHECKS, PROVISIONING_REQUEST_CONFIGS})
_OWN_DOMAIN = "zonewise.dev/"
"""Domain of the annotations of queues that have an effect: on walltimes, bindings and deadlines."""


class _Object(NamedTuple):
    obj: Json
    decides: Json
    """The fields that affect the planner or the writes for jobs."""


class ConfigurationObjects:
    """The newest state of each object that configures the queue."""

    def __init__(self) -> None:
        self._objects: dict[Resource, dict[ObjectKey, _Object]] = {
            resource: {} for resource in (*RESOURCES, *OPTIONAL_RESOURCES)
        }
        self._changed = False
        """Whether the planner must be configured again."""
        self._changed_namespaces: set[str] = set()
        """Namespaces that were created or deleted, or whose labels have changed."""
        self.priority_classes = PriorityClasses()
        self._pod_defaults: PodDefaults | None = None
        """None: it must be built again."""
        self._claim_nodes: Mapping[str, Mapping[str, tuple[Json, ...]]] = {}
        """Selectors of the nodes of claims that pods share, by namespace and name. Each change replaces the mapping."""
        self._listed: set[Resource] = set()
        """Kinds of _DEVICES that have been listed completely, at least once."""
        self.device_resources: tuple[DeviceResource, ...] = ()
        """The resources of all DeviceClasses."""
        self._by_name: dict[Resource, Mapping[str, Json]] = {resource: {} for resource in _BY_NAME}
        self.default_queues: frozenset[str] = frozenset()
        """Namespaces with a LocalQueue `default`. The set is replaced as a whole, so that other threads may read it."""

    def observe(self, key: ObjectKey, obj: Json | None) -> bool:
        """Record an object from a watch; None: it was deleted. Return False if the object configures nothing."""
        objects = self._objects.get(key.resource)
        if objects is None:
            return False
        old = objects.pop(key, None)
        new = None if obj is None else _Object(obj, _decides(key.resource, obj))
        if new is not None:
            objects[key] = new
        if key.resource == LOCAL_QUEUES and key.name == DEFAULT_QUEUE:
            others = self.default_queues - {key.namespace}
            self.default_queues = others if obj is None else others | {key.namespace}
        if key.resource in _BY_NAME:
            self._by_name[key.resource] = {entry["metadata"]["name"]: entry for entry in self.objects(key.resource)}
        if (None if old is None else old.decides) != (None if new is None else new.decides):
            self._note_change(key)
        return True

    def observe_claim(self, namespace: str, name: str, claim: AllocatedClaim | None) -> None:
        """Record a ResourceClaim; None: it was deleted."""
        known, nodes = self._claim_nodes.get(namespace, {}), () if claim is None else claim.nodes
        if known.get(name, ()) == nodes:
            return
        others = {other: terms for other, terms in known.items() if other != name}
        changed = {**others, name: nodes} if nodes else others
        remaining = {other: names for other, names in self._claim_nodes.items() if other != namespace}
        self._claim_nodes = {**remaining, namespace: changed} if changed else remaining
        self._pod_defaults = None

    def end_listing(self, resource: Resource) -> None:
        """Record that all objects of a kind have been observed. Without any listing, the kind cannot be read."""
        if resource in _DEVICES and resource not in self._listed:
            self._listed.add(resource)
            self._pod_defaults = None

    def written(self, key: ObjectKey, obj: Json) -> bool:
        """Record the object that a write returned. Return False if the object configures nothing.

        A watch may show a later state, or the deletion of the object, before the response arrives. That state is kept.
        """
        if key.resource not in self._objects:
            return False
        known = self.find(*key)
        if known is not None and uid_of(known) == uid_of(obj) and object_version(known) < object_version(obj):
            self.observe(key, obj)
        return True

    @property
    def flavors(self) -> Mapping[str, Json]:
        """Return the ResourceFlavors by name. Each change replaces the mapping."""
        return self._by_name[RESOURCE_FLAVORS]

    @property
    def admission_checks(self) -> Mapping[str, Json]:
        """Return the AdmissionChecks by name. Each change replaces the mapping."""
        return self._by_name[ADMISSION_CHECKS]

    @property
    def provisioning(self) -> Mapping[str, Json]:
        """Return the ProvisioningRequestConfigs by name. Each change replaces the mapping."""
        return self._by_name[PROVISIONING_REQUEST_CONFIGS]

    @property
    def pod_defaults(self) -> PodDefaults:
        """Return the defaults that the API server adds to pods. Each change replaces the value."""
        if self._pod_defaults is None:
            can_read_claims = RESOURCE_CLAIM_TEMPLATES in self._listed
            self._pod_defaults = build_pod_defaults(
                self.objects(RUNTIME_CLASSES),
                self.objects(LIMIT_RANGES),
                self.objects(RESOURCE_CLAIM_TEMPLATES) if can_read_claims else None,
                places_devices=self._listed >= {DEVICE_CLASSES, RESOURCE_SLICES},
                claim_nodes=self._claim_nodes,
            )
        return self._pod_defaults

    def objects(self, resource: Resource) -> list[Json]:
        """Return the objects of a kind, sorted by name."""
        entries = self._objects[resource]
        return [entries[key].obj for key in sorted(entries, key=lambda key: (key.namespace, key.name))]

    def find(self, resource: Resource, namespace: str, name: str) -> Json | None:
        """Return an object; None if it does not exist."""
        entry = self._objects[resource].get(ObjectKey(resource, namespace, name))
        return None if entry is None else entry.obj

    def is_deleted(self, namespace: str) -> bool:
        """Return whether a namespace is being deleted."""
        obj = self.find(NAMESPACES, "", namespace)
        return obj is not None and "deletionTimestamp" in obj["metadata"]

    def feed(self, feed: PlannerFeed) -> bool:
        """Configure the planner if anything but namespaces has changed since the last call; return whether it has."""
        changed, self._changed = self._changed, False
        if changed:
            self._changed_namespaces.clear()
            feed.configure(
                {field: self.objects(resource) for resource, field in _FIELDS.items()},
                {obj["metadata"]["name"]: observed_labels(obj) for obj in self.objects(NAMESPACES)},
                {each.name: each.device_class for each in self.device_resources if not each.tolerant},
            )
        return changed

    def feed_namespaces(self, feed: PlannerFeed) -> bool:
        """Feed the planner the namespaces that have changed since it was last fed; return whether any has."""
        names, self._changed_namespaces = sorted(self._changed_namespaces), set()
        if names:
            objects = ((name, self.find(NAMESPACES, "", name)) for name in names)
            feed.change_namespaces({name: None if obj is None else observed_labels(obj) for name, obj in objects})
        return bool(names)

    def _note_change(self, key: ObjectKey) -> None:
        resource = key.resource
        if resource in _POD_DEFAULTS:
            self._pod_defaults = None
        if resource == DEVICE_CLASSES:
            before, self.device_resources = self.device_resources, device_resources(self.objects(resource))
            self._changed |= self.device_resources != before
        if resource in OPTIONAL_RESOURCES:
            return
        if resource in _CLASSES:
            self.priority_classes = PriorityClasses(
                _values(self.objects(WORKLOAD_PRIORITY_CLASSES)),
                _values(self.objects(PRIORITY_CLASSES)),
                _default_class(self.objects(PRIORITY_CLASSES)),
            )
        elif resource == NAMESPACES:
            self._changed_namespaces.add(key.name)
        else:
            self._changed = True


def _values(classes: Iterable[Json]) -> dict[str, int]:
    return {obj["metadata"]["name"]: cast("int", obj.get("value", 0)) for obj in classes}


def _default_class(classes: Iterable[Json]) -> str:
    """Return the global default class; of several, the one with the smallest value (plugin/pkg/admission/priority)."""
    defaults = [obj for obj in classes if obj.get("globalDefault")]
    return min(_values(defaults).items(), key=lambda item: item[1])[0] if defaults else ""


def _decides(resource: Resource, obj: Json) -> Json:
    if resource == NAMESPACES:
        return observed_labels(obj)
    annotations: Json = obj["metadata"].get("annotations") or {}
    return {
        "annotations": {name: value for name, value in annotations.items() if name.startswith(_OWN_DOMAIN)},
        "spec": obj.get("spec") or {},
        "overhead": obj.get("overhead") or {},
        "scheduling": obj.get("scheduling") or {},
        "value": (obj.get("value", 0), obj.get("globalDefault", False)),
        "active": resource == ADMISSION_CHECKS and is_true(obj, "Active"),
    }
