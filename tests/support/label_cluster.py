"""An API server with a Node, NodeFeatures and a pod in memory, for tests of writes to it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, cast

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, NotFound
from zonewise_common.kube.resources import NODE_FEATURES, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_common.kube.resources import Resource

Object = dict[str, Any]
NODE = "node-7"
NAMESPACE = "zonewise"
NFD_ANNOTATION = "nfd.node.kubernetes.io/feature-labels"


class Cluster:
    """Behaves as a Client of a server with optimistic locking; other writers use the plain methods below."""

    def __init__(self, *, kinds: tuple[Resource, ...] = (NODES, NODE_FEATURES, PODS)) -> None:
        self.kinds = kinds
        self.objects: dict[tuple[str, str], Object] = {}
        self.writes: list[tuple[str, str, Any]] = []
        """Verb, kind and body of each write through the client."""
        self.reads = 0
        self.forbidden: set[tuple[str, str]] = set()
        """Pairs of verb and kind."""
        self.before_patch: list[Callable[[], None]] = []
        """The last function is removed and called before a patch is applied, to simulate another client
        that is faster."""
        self._version = 0
        self._put(NODES.kind, {"metadata": {"name": NODE, "uid": "n-1", "labels": {"kubernetes.io/hostname": NODE}}})

    # --- methods that the client calls

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> Object:
        self.reads += 1
        return copy.deepcopy(self._stored("get", resource, name))

    def create(self, resource: Resource, obj: Object, *, namespace: str | None = None) -> Object:
        self._check("create", resource)
        name = obj["metadata"]["name"]
        if (resource.kind, name) in self.objects:
            raise AlreadyExists(409, "AlreadyExists", "it is there")
        self.writes.append(("create", resource.kind, obj))
        return self._put(resource.kind, {**obj, "metadata": {**obj["metadata"], "uid": "u-1"}})

    def patch(
        self,
        resource: Resource,
        name: str,
        patch: Object | Sequence[Object],
        *,
        kind: PatchKind,
        namespace: str | None = None,
        subresource: str = "",
        field_manager: str = "",
    ) -> Object:
        if self.before_patch:
            self.before_patch.pop()()
        current = self._stored("patch", resource, name)
        after = copy.deepcopy(current)
        if isinstance(patch, dict):
            assert kind is PatchKind.MERGE
            _merge(after, patch)
            if after["metadata"]["resourceVersion"] != current["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", "it has changed")
        else:
            assert kind is PatchKind.JSON
            for operation in patch:
                _operate(after, operation)
        self.writes.append(("patch", resource.kind, patch))
        return self._put(resource.kind, after)

    def delete(self, resource: Resource, name: str, *, namespace: str | None = None) -> None:
        self._stored("delete", resource, name)
        del self.objects[resource.kind, name]
        self.writes.append(("delete", resource.kind, name))

    # --- actions of others

    @property
    def node(self) -> Object:
        return self.objects[NODES.kind, NODE]["metadata"]

    @property
    def labels(self) -> dict[str, str]:
        return self.node["labels"]

    @property
    def feature(self) -> Object | None:
        """The agent's NodeFeature."""
        return self.objects.get((NODE_FEATURES.kind, f"zonewise-{NODE}"))

    def label(self, name: str, value: str | None) -> None:
        """Set or remove a label as another client."""
        if value is None:
            self.labels.pop(name, None)
        else:
            self.labels[name] = value
        self._put(NODES.kind, self.objects[NODES.kind, NODE])

    def annotate(self, name: str, value: str) -> None:
        """Set an annotation as another client."""
        self.node.setdefault("annotations", {})[name] = value
        self._put(NODES.kind, self.objects[NODES.kind, NODE])

    def run_master(self) -> None:
        """Do the work of NFD's master: claim the labels of all objects, and record it."""
        desired: dict[str, str] = {}
        for (kind, _), obj in sorted(self.objects.items()):
            if kind == NODE_FEATURES.kind:
                desired |= obj["spec"]["labels"]
        listed = self.node.setdefault("annotations", {}).get(NFD_ANNOTATION, "").split(",")
        prefix = "feature.node.kubernetes.io/"
        for name in {name if "/" in name else prefix + name for name in listed if name} - desired.keys():
            self.label(name, None)
        for name, value in desired.items():
            self.label(name, value)
        self.annotate(NFD_ANNOTATION, ",".join(sorted(name.removeprefix(prefix) for name in desired)))

    def add_pod(self, name: str, uid: str) -> None:
        """Add the agent's pod, owned by a DaemonSet."""
        owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d-1", "controller": True}
        self._put(PODS.kind, {"metadata": {"name": name, "uid": uid, "ownerReferences": [owner]}})

    # --- implementation

    def _put(self, kind: str, obj: Object) -> Object:
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        self.objects[kind, obj["metadata"]["name"]] = copy.deepcopy(obj)
        return obj

    def _check(self, verb: str, resource: Resource) -> None:
        if (verb, resource.kind) in self.forbidden:
            raise Forbidden(403, "Forbidden", f"may not {verb} {resource.plural}")
        if resource not in self.kinds:
            raise NotFound(404, "NotFound", "the server could not find the requested resource", None, {})

    def _stored(self, verb: str, resource: Resource, name: str) -> Object:
        self._check(verb, resource)
        if (resource.kind, name) not in self.objects:
            raise NotFound(404, "NotFound", f"{resource.plural} {name} not found", None, {"name": name})
        return self.objects[resource.kind, name]


def _merge(target: Object, patch: Object) -> None:
    """Apply a merge patch (RFC 7386)."""
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), cast("Object", value))
        else:
            target[key] = value


def _operate(document: Object, operation: Object) -> None:
    """Apply a JSON patch operation (RFC 6902) on objects and list indexes."""
    *way, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
    parent: Any = document
    for part in way:
        parent = parent[_key(parent, part)]
    key = _key(parent, last)
    if operation["op"] == "test":
        if parent[key] != operation["value"]:
            raise Invalid(422, "Invalid", "the test failed")
    elif operation["op"] == "remove":
        del parent[key]
    else:
        parent[key] = operation["value"]


def _key(container: object, part: str) -> Any:
    return int(part) if isinstance(container, list) else part
