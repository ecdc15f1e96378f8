"""Label and field selectors.

The grammar is that of k8s.io/apimachinery/pkg/labels/selector.go: requirements parted by commas, all of which must
hold. `!=` and `notin` hold for objects without the label as well; `gt` and `lt` compare integers.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise_sandbox.apiserver.json_values import is_object, object_in
from zonewise_sandbox.apiserver.status_errors import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from zonewise_sandbox.apiserver.json_values import Object, Value
    from zonewise_sandbox.apiserver.kinds import Kind

Selector = tuple["Requirement", ...]

_TOKEN = re.compile(r"\s*(?:(?P<word>[\w./-]+)|(?P<operator>==|!=|=|!|[<>(),]))")
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


class Requirement(NamedTuple):
    """One condition on one label or field."""

    key: str
    operator: str
    """in, notin, exists, !exists, gt or lt; the others are special cases of these."""
    values: frozenset[str] = frozenset()

    def matches(self, value: str | None) -> bool:
        """Tell whether a value fits; None: there is none."""
        if self.operator == "in":
            return value in self.values
        if self.operator == "notin":
            return value not in self.values
        if self.operator in {"gt", "lt"}:
            return value is not None and self._compares(value)
        return (value is not None) == (self.operator == "exists")

    def _compares(self, found: str) -> bool:
        try:
            left, right = int(found), int(next(iter(self.values)))
        except ValueError:
            return False
        return left > right if self.operator == "gt" else left < right


def parse_labels(text: str) -> Selector:
    """Return the requirements that a label selector says; raise Refusal (400) where it says none."""
    return tuple(_Parser(text).requirements())


def parse_fields(text: str, kind: Kind) -> Selector:
    """Return the requirements that a field selector says; raise Refusal (400) for a field that the kind lacks.

    A server knows few fields per kind (pkg/apis/core/v1/conversion.go).
    """
    known = _FIELDS.get(kind.plural if not kind.custom else "", _FIELDS[""])
    found: list[Requirement] = []
    for part in filter(None, text.split(",")):
        key, operator, value = _field_term(part)
        if key not in known:
            listed = ", ".join(f'"{name}"' for name in known)
            raise bad_request(f'"{key}" is not a known field selector: only {listed}')
        found.append(Requirement(key, operator, frozenset({value})))
    return tuple(found)


def matches_labels(selector: Selector, obj: Object) -> bool:
    """Tell whether an object's labels fit."""
    labels = object_in(obj["metadata"], "labels")
    return all(requirement.matches(labels.get(requirement.key)) for requirement in selector)


def matches_fields(selector: Selector, obj: Object) -> bool:
    """Tell whether an object's fields fit; a field that is absent is empty."""
    return all(requirement.matches(_field(obj, requirement.key)) for requirement in selector)


def matcher(labels: Selector, fields: Selector) -> Callable[[Object], bool] | None:
    """Return the test of both selectors; None where everything fits."""
    if not labels and not fields:
        return None
    return lambda obj: matches_labels(labels, obj) and matches_fields(fields, obj)


def _field(obj: Object, path: str) -> str:
    found: Value = obj
    for name in path.split("."):
        found = found.get(name) if is_object(found) else None
    if isinstance(found, bool):
        return str(found).lower()
    return "" if found is None else str(found)


def _field_term(part: str) -> tuple[str, str, str]:
    for sign, operator in (("!=", "notin"), ("==", "in"), ("=", "in")):
        key, found, value = part.partition(sign)
        if found:
            return key.strip(), operator, value.strip()
    raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")


class _Parser:
    """Reads one label selector."""

    def __init__(self, text: str) -> None:
        self._tokens = list(self._split(text))
        self._at = 0

    def requirements(self) -> Iterator[Requirement]:
        if not self._tokens:
            return
        yield self._requirement()
        while self._peek():
            self._expect(",")
            yield self._requirement()

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._take()
            return Requirement(self._word(), "!exists")
        key = self._word()
        sign = self._peek()
        if sign in {"=", "==", "!="}:
            self._take()
            return Requirement(key, "notin" if sign == "!=" else "in", frozenset({self._value()}))
        if sign in {"in", "notin"}:
            self._take()
            return Requirement(key, sign, self._set())
        if sign in {"<", ">"}:
            self._take()
            return Requirement(key, "gt" if sign == ">" else "lt", frozenset({self._value()}))
        return Requirement(key, "exists")

    def _set(self) -> frozenset[str]:
        self._expect("(")
        values = [self._value()]
        while self._peek() == ",":
            self._take()
            values.append(self._value())
        self._expect(")")
        return frozenset(values)

    def _value(self) -> str:
        """Return the next word; before a comma, a bracket or the end it is the empty one."""
        return "" if self._peek() in {"", ",", ")"} else self._word()

    def _word(self) -> str:
        token = self._take()
        if not token or not (token[0].isalnum() or token[0] in "_./-"):
            raise bad_request(f"unable to parse requirement: found '{token}', expected: identifier")
        return token

    def _expect(self, sign: str) -> None:
        token = self._take()
        if token != sign:
            raise bad_request(f"unable to parse requirement: found '{token}' expected: '{sign}'")

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    @staticmethod
    def _split(text: str) -> Iterator[str]:
        at = 0
        while text[at:].strip():
            match = _TOKEN.match(text, at)
            if match is None:
                raise bad_request(f"unable to parse requirement: {text[at:]!r} is no selector")
            at = match.end()
            yield match["word"] or match["operator"]
