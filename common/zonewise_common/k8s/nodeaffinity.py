"""Which nodes a pod selects by label and name (k8s.io/component-helpers/scheduling/corev1/nodeaffinity)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import object_in, objects_in, string_in, strings_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.fields import Json

NAME_FIELD = "metadata.name"
"""The only field that nodes are selected by."""

_VALUE = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_PREFIX = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)  # strconv.ParseInt(text, 10, 64)
_INT64 = range(-(1 << 63), 1 << 63)
_LONGEST_NAME, _LONGEST_PREFIX = 63, 253


class Requirement(NamedTuple):
    """A condition on the value of a label, or of the field NAME."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, value: str | None) -> bool:
        """Tell whether a value, None for a label that a node lacks, is as asked (labels/selector.go Matches)."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
            case _:
                return value is not None and self._compares(value)

    def _compares(self, value: str) -> bool:
        own, other = _integer(self.values[0]), _integer(value)
        if own is None or other is None:
            return False
        return other > own if self.operator == "Gt" else other < own


class NodeSelectorTerm(NamedTuple):
    """Conditions that a node must meet all."""

    match_expressions: tuple[Requirement, ...]
    match_fields: tuple[Requirement, ...] = ()


def read_node_selector(spec: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Return spec.nodeSelector of a pod as requirements; raise FieldError for what is none."""
    selector = object_in(spec, "nodeSelector", "spec.")
    return tuple(Requirement(key, "In", (string_in(selector, key, "spec.nodeSelector."),)) for key in sorted(selector))


def read_required_terms(spec: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of the required node affinity of a pod's spec, of which one must hold; None where there is none.

    A term that is empty or malformed is left out, since it matches no node (nodeaffinity.go NewLazyErrorNodeSelector).
    Raises FieldError for what no API server would take.
    """
    at = "spec.affinity.nodeAffinity."
    affinity = object_in(object_in(spec, "affinity", "spec."), "nodeAffinity", "spec.affinity.")
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.get(name) is None:
        return None
    found = (
        _term(one, f"{at}{name}.")
        for one in objects_in(object_in(affinity, name, at), "nodeSelectorTerms", f"{at}{name}.")
    )
    return tuple(term for term in found if term is not None)


def _term(one: Json, at: str) -> NodeSelectorTerm | None:
    labels = tuple(_requirement(each, at) for each in objects_in(one, "matchExpressions", at))
    fields = tuple(_requirement(each, at) for each in objects_in(one, "matchFields", at))
    right = all(_is_label_requirement(each) for each in labels) and all(_is_field_requirement(each) for each in fields)
    return NodeSelectorTerm(labels, fields) if right and (labels or fields) else None


def _requirement(one: Json, at: str) -> Requirement:
    return Requirement(string_in(one, "key", at), string_in(one, "operator", at), strings_in(one, "values", at))


def _is_label_requirement(one: Requirement) -> bool:
    """Tell whether labels/selector.go NewRequirement takes it."""
    counts = {"In": one.values, "NotIn": one.values, "Exists": not one.values, "DoesNotExist": not one.values}
    comparing = len(one.values) == 1 and _integer(one.values[0]) is not None
    right = comparing if one.operator in {"Gt", "Lt"} else bool(counts.get(one.operator, False))
    return right and _is_key(one.key) and all(_is_value(value) for value in one.values)


def _is_field_requirement(one: Requirement) -> bool:
    return one.operator in {"In", "NotIn"} and len(one.values) == 1


def _is_key(key: str) -> bool:
    """Tell whether a label may have this key (validation.IsQualifiedName)."""
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > _LONGEST_PREFIX or not _PREFIX.fullmatch(prefix)):
        return False
    return bool(name) and _is_value(name)


def _is_value(value: str) -> bool:
    return len(value) <= _LONGEST_NAME and bool(_VALUE.fullmatch(value))


def _integer(value: str) -> int | None:
    # longer ones are out of range but for leading zeros, which no label has room for
    if not _INTEGER.fullmatch(value) or len(value) > _LONGEST_NAME:
        return None
    number = int(value)
    return number if number in _INT64 else None
