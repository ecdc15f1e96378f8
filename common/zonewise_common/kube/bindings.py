"""Bindings: the object that puts a pod on a node.

A binding names the UID, so it fails if the pod was deleted and created again (registry/core/pod/storage
assignPod). Its annotations are added to the pod's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

BINDING = "binding"
"""The subresource of pods to which bindings are posted."""
_NONE: Mapping[str, str] = {}


def binding(name: str, uid: str, node: str, annotations: Mapping[str, str] = _NONE) -> dict[str, Any]:
    """Return the Binding of a pod to a node."""
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "uid": uid, "annotations": dict(annotations)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
