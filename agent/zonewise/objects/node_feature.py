"""The NodeFeature object: a node's labels and raw features, for Node Feature Discovery's master and its rules."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zonewise.objects.features import Features

API_VERSION, KIND = "nfd.k8s-sigs.io/v1alpha1", "NodeFeature"
NODE_NAME = "nfd.node.kubernetes.io/node-name"

_MAX_NAME = 253  # maximum characters of an object's name (RFC 1123 subdomain)

Object = dict[str, Any]


def object_name(node: str, instance: str = "") -> str:
    """Return the name of a node's object; if several agents run on the node, each has an instance."""
    prefix = f"zonewise-{instance}-" if instance else "zonewise-"
    name = f"{prefix}{node}"
    return name if len(name) <= _MAX_NAME else f"{prefix}{hashlib.sha256(node.encode()).hexdigest()}"


def node_feature(
    node: str,
    labels: Mapping[str, str],
    features: Features,
    *,
    namespace: str = "",
    owners: Sequence[Object] = (),
    instance: str = "",
) -> Object:
    """Return the object, without a namespace; the same features give the same bytes."""
    metadata: Object = {"name": object_name(node, instance)}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {NODE_NAME: node}
    if owners:
        metadata["ownerReferences"] = list(owners)
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": {
            "features": {
                "flags": {name: {"elements": {key: {} for key in keys}} for name, keys in features.flags.items()},
                "attributes": {name: {"elements": values} for name, values in features.attributes.items()},
                "instances": {
                    name: {"elements": [{"attributes": elements} for elements in instances]}
                    for name, instances in features.instances.items()
                },
            },
            "labels": dict(labels),
        },
    }
