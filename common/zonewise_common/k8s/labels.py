"""Label selectors: the requirement type, its rules, and the two notations from which it is read.

Source: apimachinery pkg/labels/selector.go. The text notation separates requirements by commas, and all of them must
hold: `a=x,b!=y,c in (x,y),!d,e>5`. The JSON notation is metav1.LabelSelector; v1.NodeSelectorTerm uses the same
expressions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import objects_in, string_in, strings_in

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_common.k8s.fields import FieldReader

_VALUE = re.compile(r"(?:(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)  # strconv.ParseInt(text, 10, 64)
_INT64 = range(-(1 << 63), 1 << 63)
_MAX_NAME_LENGTH, _MAX_SUBDOMAIN_LENGTH = 63, 253
_TOKEN = re.compile(r"\s*(?:(?P<word>[\w./-]+)|(?P<sign>==|!=|=|!|[<>(),]))")


class SelectorError(ValueError):
    """A text that is not a label selector; the message is the API server's."""


class Requirement(NamedTuple):
    """A condition on the value of a label or a field."""

    key: str
    operator: str
    """In, NotIn, Exists, DoesNotExist, Gt or Lt."""
    values: tuple[str, ...] = ()

    def matches(self, value: str | None) -> bool:
        """Return whether a value satisfies the condition; None means that the label is absent (selector.go Matches)."""
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

    def is_valid(self) -> bool:
        """Return whether the API server accepts the requirement for a label (selector.go NewRequirement)."""
        match self.operator:
            case "In" | "NotIn":
                valid = bool(self.values)
            case "Exists" | "DoesNotExist":
                valid = not self.values
            case "Gt" | "Lt":
                valid = len(self.values) == 1 and _integer(self.values[0]) is not None
            case _:
                valid = False
        return valid and is_qualified_name(self.key) and all(map(is_label_value, self.values))

    def _compares(self, value: str) -> bool:
        bound, number = _integer(self.values[0]), _integer(value)
        if bound is None or number is None:
            return False
        return number > bound if self.operator == "Gt" else number < bound


def selects(selector: Iterable[Requirement], labels: Mapping[str, str]) -> bool:
    """Return whether a set of labels satisfies every requirement."""
    return all(requirement.matches(labels.get(requirement.key)) for requirement in selector)


# --- names


def is_qualified_name(key: str) -> bool:
    """Return whether a label or an annotation may have this key (util/validation IsQualifiedName)."""
    prefix, slash, name = key.rpartition("/")
    return (not slash or is_subdomain(prefix)) and bool(name) and is_label_value(name)


def is_label_value(value: str) -> bool:
    """Return whether a label may have this value (util/validation IsValidLabelValue)."""
    return len(value) <= _MAX_NAME_LENGTH and bool(_VALUE.fullmatch(value))


def is_subdomain(name: str) -> bool:
    """Return whether a text is a lowercase RFC 1123 subdomain (util/validation IsDNS1123Subdomain)."""
    return len(name) <= _MAX_SUBDOMAIN_LENGTH and bool(_SUBDOMAIN.fullmatch(name))


def _integer(value: str) -> int | None:
    # a longer text has leading zeros or is out of range; no label value is longer
    if not _INTEGER.fullmatch(value) or len(value) > _MAX_NAME_LENGTH:
        return None
    number = int(value)
    return number if number in _INT64 else None


# --- the JSON notation


def read_requirements(owner: Mapping[str, Any], name: str, path: str) -> tuple[Requirement, ...]:
    """Return a list of expressions within an object, valid or not; raise FieldError for values of other types."""
    return tuple(
        Requirement(string_in(item, "key", path), string_in(item, "operator", path), strings_in(item, "values", path))
        for item in objects_in(owner, name, path)
    )


def read_label_selector(selector: FieldReader) -> tuple[Requirement, ...] | None:
    """Return the requirements of a metav1.LabelSelector; None if one is invalid, which is reported as a problem."""
    labels = tuple(Requirement(key, "In", (value,)) for key, value in sorted(selector.pairs("matchLabels").items()))
    selector.ignore("matchExpressions")
    selector.report_unknown()
    if not all(requirement.is_valid() for requirement in labels):
        selector.report("matchLabels", "not valid")
        return None
    if not selector.obj.get("matchExpressions"):
        return labels
    expressions = selector.read_whole(lambda obj: read_requirements(obj, "matchExpressions", ""), None)
    if expressions is None:
        return None
    if not all(requirement.is_valid() for requirement in expressions):
        selector.report("matchExpressions", "not valid")
        return None
    return (*labels, *expressions)


# --- the text notation


def parse_selector(text: str) -> tuple[Requirement, ...]:
    """Return the requirements of a selector in text notation; raise SelectorError (selector.go Parse)."""
    return tuple(_Parser(text).requirements())


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = list(self._split(text))
        self._position = 0

    def requirements(self) -> Iterator[Requirement]:
        if not self._tokens:
            return
        yield self._requirement()
        while self._peek():
            self._expect(",")
            yield self._requirement()

    def _requirement(self) -> Requirement:
        if self._peek() == "!":
            self._next()
            return Requirement(self._word(), "DoesNotExist")
        key = self._word()
        sign = self._peek()
        if sign in {"=", "==", "!="}:
            self._next()
            return Requirement(key, "NotIn" if sign == "!=" else "In", (self._value(),))
        if sign in {"in", "notin"}:
            self._next()
            return Requirement(key, "NotIn" if sign == "notin" else "In", self._set())
        if sign in {"<", ">"}:
            self._next()
            return Requirement(key, "Gt" if sign == ">" else "Lt", (self._value(),))
        return Requirement(key, "Exists")

    def _set(self) -> tuple[str, ...]:
        self._expect("(")
        values = [self._value()]
        while self._peek() == ",":
            self._next()
            values.append(self._value())
        self._expect(")")
        return tuple(values)

    def _value(self) -> str:
        """Return the next word; the empty word before a comma, a bracket or the end."""
        return "" if self._peek() in {"", ",", ")"} else self._word()

    def _word(self) -> str:
        token = self._next()
        if not token or not (token[0].isalnum() or token[0] in "_./-"):
            raise SelectorError(f"unable to parse requirement: found '{token}', expected: identifier")
        return token

    def _expect(self, sign: str) -> None:
        token = self._next()
        if token != sign:
            raise SelectorError(f"unable to parse requirement: found '{token}' expected: '{sign}'")

    def _peek(self) -> str:
        return self._tokens[self._position] if self._position < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._position += 1
        return token

    @staticmethod
    def _split(text: str) -> Iterator[str]:
        position = 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise SelectorError(f"unable to parse requirement: {text[position:]!r} is not a selector")
            position = match.end()
            yield match["word"] or match["sign"]
