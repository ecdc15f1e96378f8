"""The nodes that a pod selects, by label and by name.

Source: component-helpers scheduling/corev1/nodeaffinity/nodeaffinity.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import object_in, objects_in, string_map_in
from zonewise_common.k8s.labels import Requirement, read_requirements

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_common.k8s.tolerant import Json

NAME_FIELD = "metadata.name"
"""The only field by which nodes can be selected."""


class NodeSelectorTerm(NamedTuple):
    """Requirements that a node must satisfy all at once."""

    match_expressions: tuple[Requirement, ...]
    match_fields: tuple[Requirement, ...] = ()


def read_node_selector(spec: Mapping[str, Any]) -> tuple[Requirement, ...]:
    """Return a pod's spec.nodeSelector as requirements; raise FieldError if a value is not a string."""
    return tuple(Requirement(key, "In", (value,)) for key, value in string_map_in(spec, "nodeSelector", "spec."))


def read_required_terms(spec: Mapping[str, Any]) -> tuple[NodeSelectorTerm, ...] | None:
    """Return the terms of a pod's required node affinity, one of which must match; None if the spec declares none.

    An empty or malformed term matches no nodeand is omitted (nodeaffinity.go NewLazyErrorNodeSelector). Raises
    FieldError for fields of the wrong type.
    """
    path = "spec.affinity.nodeAffinity."
    affinity = object_in(object_in(spec, "affinity", "spec."), "nodeAffinity", "spec.affinity.")
    name = "requiredDuringSchedulingIgnoredDuringExecution"
    if affinity.get(name) is None:
        return None
    selector = object_in(affinity, name, path)
    path = f"{path}{name}."
    terms = objects_in(selector, "nodeSelectorTerms", path)
    read = (read_selector_term(term, f"{path}nodeSelectorTerms[{index}].") for index, term in enumerate(terms))
    return tuple(term for term in read if term is not None)


def read_selector_term(term: Json, path: str) -> NodeSelectorTerm | None:
    """Return a term, or None if it matches no node; raise FieldError, with the path, for fields of the wrong type."""
    labels = read_requirements(term, "matchExpressions", path)
    fields = read_requirements(term, "matchFields", path)
    valid = all(requirement.is_valid() for requirement in labels) and all(map(_is_valid_for_field, fields))
    return NodeSelectorTerm(labels, fields) if valid and (labels or fields) else None


def _is_valid_for_field(requirement: Requirement) -> bool:
    return requirement.operator in {"In", "NotIn"} and len(requirement.values) == 1
