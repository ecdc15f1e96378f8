"""The NodeFeatureGroups of a node, which its agents record on the Node for `zonewise controller`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ANNOTATION_PREFIX = "zonewise.dev/feature-groups."
"""Prefix of the annotation on the Node; the name of the agent's instance follows."""


def groups_text(groups: Iterable[str]) -> str:
    """Return the annotation value of an agent that evaluates groups, from the groups' names (namespace/name)."""
    return ",".join(sorted(groups))


def recorded_groups(annotations: Mapping[str, object]) -> frozenset[str] | None:
    """Return the groups that the agents of a Node have recorded; None if no agent evaluates groups."""
    texts = [text for name, text in annotations.items() if name.startswith(ANNOTATION_PREFIX)]
    names = (name for text in texts if isinstance(text, str) for name in text.split(",") if name)
    return frozenset(names) if texts else None
