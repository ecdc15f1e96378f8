"""The NodeFeature object, which gives Node Feature Discovery's master labels and the features that its rules match.

The master reads every object that has the label with the node's name, and merges the objects in the order of their
names (pkg/nfd-master/nfd-master.go). The object of nfd-worker has the node's name. Ours has another, so that both may
run.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from zonewise.objects.node_feature import node_feature, object_name
from zonewise.publish.json_patch import json_patch
from zonewise.publish.nrt_publisher import FIELD_MANAGER
from zonewise.publish.output_publisher import NodeClient
from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import Forbidden, NotFound
from zonewise_common.kube.resources import NODE_FEATURES, NODES, PODS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.objects.features import Features
    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

Object = dict[str, Any]


class FeatureClient(NodeClient, Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def create(self, resource: Resource, obj: Object, *, namespace: str | None = None) -> Object:
        """Create an object."""
        ...

    def delete(self, resource: Resource, name: str, *, namespace: str | None = None) -> None:
        """Delete an object."""
        ...


class LabelTarget(NamedTuple):
    """The node to label, with the namespace of the object."""

    node: str
    namespace: str = ""
    """Namespace of the object; empty if the agent runs outside the cluster."""
    pod: str = ""
    """The agent's own pod, in that namespace."""
    instance: str = ""
    """The name of this agent, if several agents run on the node."""


def owner_references(pod: Mapping[str, Any]) -> list[Object]:
    """Return references to a pod and to the DaemonSet that owns it.

    The garbage collector removes an object when all of its owners are deleted. So labels survive a restart of the pod,
    but not the removal of the DaemonSet (nfd-worker -owner-refs=pod,ds).
    """
    metadata = pod["metadata"]
    daemon_sets = [
        {key: owner[key] for key in ("apiVersion", "kind", "name", "uid")}
        for owner in metadata.get("ownerReferences") or ()
        if owner.get("kind") == "DaemonSet"
    ]
    return [{"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}, *daemon_sets]


def node_feature_patch(current: Object, desired: Object) -> list[Object]:
    """Return the JSON patch that transforms the current object into the desired one; empty if they are equal.

    Labels and annotations of others remain. The patch begins with a test of the resource version: the server returns
    Invalid if another client has written meanwhile.
    """
    own: Object = desired["metadata"]
    metadata: Object = current["metadata"]
    labels: dict[str, str] = {**(metadata.get("labels") or {}), **own["labels"]}
    after = {
        **current,
        "metadata": {**metadata, "labels": labels, "ownerReferences": own["ownerReferences"]},
        "spec": desired["spec"],
    }
    operations = json_patch(current, after)
    if not operations:
        return []
    return [{"op": "test", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}, *operations]


class NotServed(Exception):
    """The API server does not have this kind of object."""


class FeatureWriter:
    """Writes the object of one node."""

    def __init__(self, client: FeatureClient, target: LabelTarget) -> None:
        self._client = client
        self._target = target
        self._own_pod: list[Object] | None = None

    def write(self, labels: Mapping[str, str], features: Features) -> int:
        """Make the object equal to the desired one; return the bytes sent, 0 if it was equal already.

        Raises NotServed and KubeError. Conflict, AlreadyExists and Invalid may mean that another client has written
        meanwhile.
        """
        name, namespace = self._name(), self._target.namespace
        try:
            current = self._client.get(NODE_FEATURES, name, namespace=namespace)
        except NotFound as error:
            if not error.details.get("name"):  # if only the object is missing, the server names it
                raise NotServed(str(error)) from error
            current = None
        owners, instance = self._owner_references(), self._target.instance
        obj = node_feature(self._target.node, labels, features, namespace=namespace, owners=owners, instance=instance)
        if current is None:
            self._client.create(NODE_FEATURES, obj, namespace=namespace)
            return len(msgspec.json.encode(obj))
        patch = node_feature_patch(current, obj)
        if not patch:
            return 0
        self._client.patch(
            NODE_FEATURES, name, patch, kind=PatchKind.JSON, namespace=namespace, field_manager=FIELD_MANAGER
        )
        return len(msgspec.json.encode(patch))

    def remove(self) -> None:
        """Remove the object if there is one."""
        try:
            self._client.delete(NODE_FEATURES, self._name(), namespace=self._target.namespace)
        except (NotFound, Forbidden) as error:
            log.debug("the agent's NodeFeature cannot be removed: %s", error)

    def _name(self) -> str:
        return object_name(self._target.node, self._target.instance)

    def _owner_references(self) -> list[Object]:
        """Return the agent's pod and its DaemonSet; the Node if there is no pod or the pod may not be read.

        The agent never outlives its pod. It may outlive its Node: a new Node of the same name has another UID.
        """
        if self._own_pod is None:
            self._own_pod = self._pod_owners()
        return self._own_pod or self._node_owner()

    def _pod_owners(self) -> list[Object]:
        if not self._target.pod:
            return []
        try:
            return owner_references(self._client.get(PODS, self._target.pod, namespace=self._target.namespace))
        except (Forbidden, NotFound) as error:
            log.warning("the NodeFeature is owned by the Node, and remains when the DaemonSet is deleted: %s", error)
            return []

    def _node_owner(self) -> list[Object]:
        uid = self._client.get(NODES, self._target.node)["metadata"]["uid"]
        return [{"apiVersion": "v1", "kind": "Node", "name": self._target.node, "uid": uid}]
