"""Keeps gangs off nodes with certain conditions, such as GPUHardwareFault, by a taint that only this program sees.

An avoided condition that is True counts as a taint with the effect NoSchedule. Single pods tolerate it: if the node
fails, only one pod is lost, but a gang loses all its pods. A taint of the Node itself keeps every pod off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.k8s.fields import object_in, objects_in
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_common.phrases import first_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.nodes.node.node_info import NodeInfo

KEY = "zonewise.dev/avoided-condition"
"""Key of the taint, which is never on a Node in the API."""
SINGLE_POD = Toleration(KEY, "Exists")
"""Toleration of a pod that is not part of a gang."""
_MAX_VALUE = 200


def with_avoided_conditions(node: Mapping[str, Any], types: Iterable[str]) -> Mapping[str, Any]:
    """Return a v1.Node with a taint for each avoided condition that is True. Raises FieldError."""
    avoided = frozenset(types)
    taints = [
        {"key": KEY, "value": _value(condition), "effect": "NoSchedule"}
        for condition in objects_in(object_in(node, "status", ""), "conditions", "status.")
        if condition.get("type") in avoided and condition.get("status") == "True"
    ]
    if not taints:
        return node
    spec = object_in(node, "spec", "")
    return {**node, "spec": {**spec, "taints": [*objects_in(spec, "taints", "spec."), *taints]}}


def without_avoided_conditions(node: NodeInfo) -> NodeInfo:
    """Return a node without these taints."""
    return node._replace(taints=tuple(taint for taint in node.taints if taint.key != KEY))


def describe_condition(taint: Taint, nodes: Sequence[str]) -> str:
    """Return why a gang avoids nodes, for example "node-7: GPUHardwareFault XID79"."""
    return f"{first_names(nodes)}: {taint.value}"


def _value(condition: Mapping[str, Any]) -> str:
    """Return type and reason, separated by a space, which the value of a real taint never contains."""
    reason = condition.get("reason")
    return f"{condition['type']} {reason if isinstance(reason, str) else ''}".strip()[:_MAX_VALUE]
