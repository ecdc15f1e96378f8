"""Short forms of CustomResourceDefinitions."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def definition_of(
    name: str, kind: str, version: str, schema: Json = ANYTHING, *, namespaced: bool = True, status: bool = False
) -> Json:
    """Return the definition of a kind; `name`: "plural.group"; `status`: whether status is a subresource."""
    plural, _, group = name.partition(".")
    served: Json = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # groups under k8s.io require the annotation
        "metadata": {"name": name, "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "versions": [served | ({"subresources": {"status": {}}} if status else {})],
        },
    }
