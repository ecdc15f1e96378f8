"""Nodes that gangs avoid for a condition of theirs, such as GPUHardwareFault: a taint that only this program sees.

An avoided condition that is True counts as a taint with the effect NoSchedule. A pod alone tolerates it: where the node
fails, one pod is lost, and of a gang all pods. A Node's own taint keeps every pod off.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from zonewise_common.k8s.fields import object_in, objects_in
from zonewise_common.k8s.hardware_conditions import NODE_CONDITIONS
from zonewise_common.k8s.taints import Taint, Toleration
from zonewise_common.service.options import Option

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KEY = "zonewise.dev/avoided-condition"
"""Of the taint, which is on no Node of the API server."""
SINGLE_POD = Toleration(KEY, "Exists")
"""What a pod has that is no part of a gang."""
HARDWARE = "hardware"
"""All conditions that the agent sets for hardware faults."""
_TYPE = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""A qualified name, as the API server demands it of a condition's type."""
_MAX_NAMES = 3
_MAX_VALUE = 200


def condition_types(value: object) -> tuple[str, ...]:
    """Accept types of conditions, as a list or separated by commas; "hardware" stands for those of the agent."""
    items = cast("list[object]", value) if isinstance(value, list) else str(value).split(",")
    if not isinstance(value, str | list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f'must be types of node conditions, separated by commas, or "{HARDWARE}"')
    types: dict[str, None] = {}
    for item in filter(None, (str(item).strip() for item in items)):
        if item == "Ready":
            raise ValueError("must not have Ready: a node whose condition Ready is True is healthy")
        if not _TYPE.fullmatch(item):
            raise ValueError(f"must be types of node conditions, such as {NODE_CONDITIONS[0]}: {item!r} is none")
        types |= dict.fromkeys(NODE_CONDITIONS if item == HARDWARE else (item,))
    return tuple(types)


OPTION = Option(
    "avoidConditions", condition_types, f"keep gangs off nodes of which one of these conditions is True, such as "
    f'GPUHardwareFault; "{HARDWARE}" for all that the agent sets (default: "")', "TYPE[,TYPE]",
)  # fmt: skip


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


def describe_condition(taint: Taint, nodes: Sequence[str]) -> str:
    """Return why a gang avoids nodes: "node-7: GPUHardwareFault XID79"."""
    more = len(nodes) - _MAX_NAMES
    names = ", ".join(nodes[:_MAX_NAMES]) + (f" and {more} more" if more > 0 else "")
    return f"{names}: {taint.value}"


def _value(condition: Mapping[str, Any]) -> str:
    """Return type and reason; the value of no real taint has a space."""
    reason = condition.get("reason")
    return f"{condition['type']} {reason if isinstance(reason, str) else ''}".strip()[:_MAX_VALUE]
