"""Roles of the pods of a group. Pods of one role are interchangeable for scheduling (pkg/util/pod/pod.go SpecShape).

The hash is stable across processes, but differs from Kueue's. Each of the two controllers writes its hash to a pod's
annotation once, when the pod is created, and reads only the annotation afterwards. So groups that Kueue has started
keep their roles.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import object_in, objects_in

if TYPE_CHECKING:
    from collections.abc import Mapping

_LENGTH = 8
_SCHEDULING_FIELDS = (
    "affinity",
    "nodeSelector",
    "overhead",
    "priority",
    "resourceClaims",
    "runtimeClassName",
    "tolerations",
    "topologySpreadConstraints",
)


def role_hash(pod_spec: Mapping[str, Any]) -> str:
    """Return a hash of the fields that matter for scheduling. Raises FieldError for invalid containers."""
    shape: dict[str, Any] = {field: pod_spec.get(field) or None for field in _SCHEDULING_FIELDS}
    shape["resources"] = object_in(pod_spec, "resources", "spec.").get("requests")
    for field in ("initContainers", "containers"):
        shape[field] = [
            [object_in(container, "resources", f"spec.{field}.").get("requests"), container.get("ports")]
            for container in objects_in(pod_spec, field, "spec.")
        ]
    text = json.dumps(shape, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_LENGTH]
