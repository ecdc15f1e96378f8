"""The setting that names conditions of nodes which gangs avoid."""

from __future__ import annotations

import re
from typing import cast

from zonewise_common.k8s.hardware_conditions import NODE_CONDITIONS
from zonewise_common.service.options import Option

HARDWARE = "hardware"
"""All conditions that the agent sets for hardware faults."""
_TYPE = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
"""A qualified name, as the API server requires it for a condition's type."""


def condition_types(value: object) -> tuple[str, ...]:
    """Parse condition types, as a list or separated by commas; "hardware" stands for the agent's conditions."""
    items = cast("list[object]", value) if isinstance(value, list) else str(value).split(",")
    if not isinstance(value, str | list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f'must be types of node conditions, separated by commas, or "{HARDWARE}"')
    types: dict[str, None] = {}
    for item in filter(None, (str(item).strip() for item in items)):
        if item == "Ready":
            raise ValueError("must not include Ready: a node whose condition Ready is True is healthy")
        if not _TYPE.fullmatch(item):
            raise ValueError(f"must be types of node conditions, such as {NODE_CONDITIONS[0]}: {item!r} is not one")
        types |= dict.fromkeys(NODE_CONDITIONS if item == HARDWARE else (item,))
    return tuple(types)


AVOID_CONDITIONS = Option(
    "avoidConditions", condition_types, "keep gangs off nodes on which one of these conditions is True, such as "
    f'GPUHardwareFault; "{HARDWARE}" stands for all that the agent sets (default: "")', "TYPE[,TYPE]",
)  # fmt: skip
