"""The selectors of a list or a watch: labels in the shared grammar, and the few fields that a server indexes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.k8s.labels import Requirement, SelectorError, parse_selector, selects
from zonewise_sandbox.apiserver.json_values import is_object, object_in
from zonewise_sandbox.apiserver.status_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.kinds import Kind

Selector = tuple[Requirement, ...]

_FIELDS = {
    "": ("metadata.name", "metadata.namespace"),
    "pods": ("metadata.name", "metadata.namespace", "spec.nodeName", "spec.schedulerName", "status.phase"),
    "nodes": ("metadata.name", "spec.unschedulable"),
    "events": (
        "metadata.name",
        "metadata.namespace",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.uid",
        "reason",
        "type",
    ),
    "jobs": ("metadata.name", "metadata.namespace", "status.successful"),
    "namespaces": ("metadata.name", "status.phase"),
}


def parse_labels(text: str) -> Selector:
    """Return the requirements of a label selector; raise StatusError (400) if it is invalid."""
    try:
        return parse_selector(text)
    except SelectorError as error:
        raise bad_request(str(error)) from None


def parse_fields(text: str, kind: Kind) -> Selector:
    """Return the requirements of a field selector; raise StatusError (400) for unsupported fields.

    A server supports few fields per kind (pkg/apis/core/v1/conversion.go).
    """
    known = _FIELDS.get(kind.plural if not kind.custom else "", _FIELDS[""])
    requirements: list[Requirement] = []
    for term in filter(None, text.split(",")):
        requirement = _parse_field_term(term)
        if requirement.key not in known:
            listed = ", ".join(f'"{name}"' for name in known)
            raise bad_request(f'"{requirement.key}" is not a known field selector: only {listed}')
        requirements.append(requirement)
    return tuple(requirements)


def matches_labels(selector: Selector, obj: Object) -> bool:
    """Return whether an object's labels match."""
    return selects(selector, object_in(obj["metadata"], "labels"))


def matches_fields(selector: Selector, obj: Object) -> bool:
    """Return whether an object's fields match; an absent field counts as empty."""
    return all(requirement.matches(_field(obj, requirement.key)) for requirement in selector)


def matcher(labels: Selector, fields: Selector) -> Callable[[Object], bool] | None:
    """Return the predicate for both selectors; None if both are empty and everything matches."""
    if not labels and not fields:
        return None
    return lambda obj: matches_labels(labels, obj) and matches_fields(fields, obj)


def _field(obj: Object, path: str) -> str:
    value: Value = obj
    for name in path.split("."):
        value = value.get(name) if is_object(value) else None
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def _parse_field_term(term: str) -> Requirement:
    for sign, operator in (("!=", "NotIn"), ("==", "In"), ("=", "In")):
        key, separator, value = term.partition(sign)
        if separator:
            return Requirement(key.strip(), operator, (value.strip(),))
    raise bad_request(f"invalid selector: '{term}'; can't understand '{term}'")
