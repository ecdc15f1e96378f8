"""Applies new values of WorkloadPriorityClasses (pkg/controller/core/workloadpriorityclass_controller.go).

A new value applies to the Workloads of the class once. Until the next one, a user may change the priority of a
Workload. A replica that starts to lead does not know which values are new, so it applies all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.fields import FieldReader
from zonewise_common.kube.resources import WORKLOAD_PRIORITY_CLASSES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.controller.types import Json


class ClassValues:
    """The values of the classes, and the Workloads to which a new one must still be applied."""

    def __init__(self) -> None:
        self._values: Mapping[str, int] = {}
        self._due: set[str] = set()

    def update(self, values: Mapping[str, int], workloads: Mapping[str, Json]) -> list[str]:
        """Set the values by name of the class; return the keys of the Workloads whose class has a new one.

        Each change of a value replaces the mapping.
        """
        if values is self._values:
            return []
        changed = {name for name, value in values.items() if self._values.get(name) != value}
        self._values = values
        keys = [key for key, workload in workloads.items() if _class_name(workload) in changed] if changed else []
        self._due.update(keys)
        return keys

    def new_priority(self, key: str, workload: Json) -> int | None:
        """Return the value that must be applied to a Workload; None: there is none."""
        return self._values.get(_class_name(workload)) if key in self._due else None

    def forget(self, key: str) -> None:
        """Record that a Workload shows its new value, or does not exist."""
        self._due.discard(key)


def _class_name(workload: Json) -> str:
    """Return the name of a Workload's WorkloadPriorityClass; "": it has none."""
    reference = FieldReader(workload, "", []).child("spec").child("priorityClassRef")
    return reference.text("name") if reference.text("kind") == WORKLOAD_PRIORITY_CLASSES.kind else ""
