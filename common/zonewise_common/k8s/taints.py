"""Taints of nodes and tolerations of pods (k8s.io/api/core/v1/toleration.go)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import objects_in, string_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_CANONICAL = re.compile(r"0|-?[1-9][0-9]*", re.ASCII)  # pkg/api/validate/content/decimal_int.go IsDecimalInteger
_INT64 = range(-(1 << 63), 1 << 63)


class Taint(NamedTuple):
    """A taint of a node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        """Return the taint in kubectl's notation: key=value:effect."""
        return f"{self.key}{'=' if self.value else ''}{self.value}:{self.effect}"


UNSCHEDULABLE = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")
"""The taint that stands for spec.unschedulable: a pod that tolerates it may run there (plugins/nodeunschedulable)."""


class Toleration(NamedTuple):
    """A toleration of a pod; an empty key or effect matches all."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    is_temporary: bool = False
    """Whether it has tolerationSeconds: pods are evicted once they have run for so long on a node with the taint."""

    def tolerates_taint(self, taint: Taint) -> bool:
        """Return whether the toleration matches a taint; Gt and Lt match numbers above and below its value."""
        if (self.effect and self.effect != taint.effect) or (self.key and self.key != taint.key):
            return False
        if self.operator == "Exists":
            return True
        if self.operator == "Equal":
            return self.value == taint.value
        bound, number = _number(self.value), _number(taint.value)
        if bound is None or number is None:
            return False
        return (self.operator == "Gt" and number > bound) or (self.operator == "Lt" and number < bound)


def find_matching_untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """Return the first taint that rejects a pod; taints with the effect PreferNoSchedule reject none."""
    for taint in taints:
        if taint.effect in {"NoSchedule", "NoExecute"} and not tolerations_tolerate_taint(taint, tolerations):
            return taint
    return None


def tolerations_tolerate_taint(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether any of the tolerations matches a taint."""
    return any(toleration.tolerates_taint(taint) for toleration in tolerations)


def lasting_tolerations(tolerations: Iterable[Toleration]) -> tuple[Toleration, ...]:
    """Return the tolerations that never expire."""
    return tuple(toleration for toleration in tolerations if not toleration.is_temporary)


def read_taints(spec: Mapping[str, Any]) -> tuple[Taint, ...]:
    """Return the taints of a node's spec, in their order; raise FieldError for fields of the wrong type."""
    path = "spec.taints."
    return tuple(
        Taint(string_in(taint, "key", path), string_in(taint, "value", path), string_in(taint, "effect", path))
        for taint in objects_in(spec, "taints", "spec.")
    )


def read_tolerations(spec: Mapping[str, Any], *, comparisons: bool) -> tuple[Toleration, ...]:
    """Return the tolerations of a pod's spec, in their order; raise FieldError for fields of the wrong type.

    Without the gate TaintTolerationComparisonOperators (alpha in 1.35, 1.36) tolerations with Gt and Lt match nothing
    and are omitted.
    """
    path = "spec.tolerations."
    tolerations = (
        Toleration(
            string_in(item, "key", path),
            string_in(item, "operator", path) or "Equal",
            string_in(item, "value", path),
            string_in(item, "effect", path),
            item.get("tolerationSeconds") is not None,
        )
        for item in objects_in(spec, "tolerations", "spec.")
    )
    return tuple(toleration for toleration in tolerations if comparisons or toleration.operator in {"Equal", "Exists"})


def _number(value: str) -> int | None:
    if not _CANONICAL.fullmatch(value) or len(value) > len(str(_INT64.start)):
        return None
    number = int(value)
    return number if number in _INT64 else None
