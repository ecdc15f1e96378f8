"""Roles of the pods of a group. Pods of one role are interchangeable for scheduling.

The hash equals Kueue's (pkg/util/pod/pod.go GenerateRoleHash). So a replacement pod gets the role of the pod that it
replaces, whichever of the two controllers has created the Workload of the group.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import object_in, objects_in

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = 8


def role_hash(pod_spec: Mapping[str, Any]) -> str:
    """Return a hash of the fields that matter for scheduling, as the API server sends them.

    It depends on the order of the fields in the objects of `affinity`, `tolerations`, `topologySpreadConstraints`,
    `resourceClaims` and `ports`, which is fixed there. Raises FieldError for invalid containers.
    """
    shape: dict[str, Any] = {
        "affinity": pod_spec.get("affinity"),
        "containers": _containers(pod_spec, "containers"),
        "initContainers": _containers(pod_spec, "initContainers"),
        "nodeSelector": _sorted(object_in(pod_spec, "nodeSelector", "spec.")),
        "overhead": _sorted(object_in(pod_spec, "overhead", "spec.")),
        "priority": pod_spec.get("priority"),
        "resourceClaims": pod_spec.get("resourceClaims") or None,
    }
    if pod_spec.get("resources") is not None:
        shape["resources"] = _requests(pod_spec, "spec.")
    shape |= {
        "runtimeClassName": pod_spec.get("runtimeClassName"),
        "tolerations": pod_spec.get("tolerations") or None,
        "topologySpreadConstraints": pod_spec.get("topologySpreadConstraints") or None,
    }
    text = json.dumps({"spec": shape}, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]


def _containers(pod_spec: Mapping[str, Any], field: str) -> list[dict[str, Any]] | None:
    return [
        {"ports": container.get("ports") or None, "resources": {"requests": _requests(container, f"spec.{field}.")}}
        for container in objects_in(pod_spec, field, "spec.")
    ] or None


def _requests(owner: Mapping[str, Any], path: str) -> dict[str, Any] | None:
    return _sorted(object_in(object_in(owner, "resources", path), "requests", f"{path}resources."))


def _sorted(pairs: Mapping[str, Any]) -> dict[str, Any] | None:
    return dict(sorted(pairs.items())) or None
