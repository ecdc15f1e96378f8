"""The operators of match expressions, as in NFD's pkg/apis/nfd/nodefeaturerule/expression.go.

| operator | operands | matches if the value | matches if the element is missing |
|---|---|---|---|
| In, NotIn | 1 or more | equals one of them, equals none | no, no |
| InRegexp | 1 or more | has a part that matches an expression | no |
| Exists, DoesNotExist | none | exists, never | no, yes |
| Gt, Ge, Lt, Le | 1 | is greater, at least, less, at most | no |
| GtLt, GeLe | 2 | is between them, exclusive or inclusive | no |
| IsTrue, IsFalse | none | is "true", is "false" | no, no |
| none | none | is anything | yes |

Comparisons read values as 64-bit whole numbers, or as versions with `type: version`. A flag has no value, so only
operators of presence can match it. An operand is checked only if there is a value to compare it with. So a damaged
expression is an error on nodes that have the element. Operators of presence check their operands at once.
"""

from __future__ import annotations

from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any

from zonewise.rules.numbers import parse_integer, parse_version
from zonewise.rules.regexps import compile_regexp, encoded
from zonewise.rules.types import RuleError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.rules.types import MatchExpression

ANY, EXISTS, DOES_NOT_EXIST = "", "Exists", "DoesNotExist"
VERSION = "version"

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {"Gt": gt, "Ge": ge, "Lt": lt, "Le": le}
_RANGES: dict[str, tuple[Callable[[Any, Any], bool], Callable[[Any, Any], bool]]] = {"GtLt": (gt, lt), "GeLe": (ge, le)}
_BOOLEANS = {"IsTrue": "true", "IsFalse": "false"}
_PRESENCE = (ANY, EXISTS, DOES_NOT_EXIST)
_NO_OPERANDS = (*_PRESENCE, *_BOOLEANS)
_LISTS = ("In", "NotIn", "InRegexp")

OPERATORS = (*_LISTS, EXISTS, DOES_NOT_EXIST, *_COMPARISONS, *_RANGES, *_BOOLEANS)
TYPED_OPERATORS = (*_COMPARISONS, *_RANGES)
"""Operators that compare, to which a type applies."""


def matches(expression: MatchExpression, value: str | None, *, present: bool) -> bool:
    """Return whether an element matches; `value` is None for a flag and for a missing element. Raises RuleError."""
    operator = expression.op
    if operator not in OPERATORS and operator != ANY:
        raise RuleError(f"{operator[:100]!r} is not an operator: the operators are {', '.join(OPERATORS)}")
    if operator in _PRESENCE:
        check_operands(expression)
        return operator == ANY or present == (operator == EXISTS)
    if not present or value is None:
        return False
    check_operands(expression)
    if operator in _LISTS:
        return _matches_list(expression, value)
    if operator in _BOOLEANS:
        return value == _BOOLEANS[operator]
    return _matches_comparison(expression, value)


def check_operands(expression: MatchExpression) -> None:
    """Raise RuleError if the number of operands or the type is wrong for the operator."""
    operator, count = expression.op, len(expression.value)
    name = f"operator {operator}" if operator else "the expression has no operator"
    if operator in _NO_OPERANDS and count:
        raise RuleError(f"{name} takes no value, but has {_shown(expression)}")
    if operator in _LISTS and not count:
        raise RuleError(f"{name} needs a value")
    for operators, required in ((_COMPARISONS, 1), (_RANGES, 2)):
        if operator in operators and count != required:
            raise RuleError(f"{name} needs {required} value{'s'[: required - 1]}, not {_shown(expression)}")
    if operator in TYPED_OPERATORS and expression.type not in ("", VERSION):
        raise RuleError(f"{name} accepts the type {VERSION!r}, not {expression.type[:100]!r}")


def check_constants(expression: MatchExpression) -> None:
    """Raise RuleError for an operand that cannot be compared with any value."""
    check_operands(expression)
    if expression.op == "InRegexp":
        for pattern in expression.value:
            compile_regexp(pattern)
    if expression.op in TYPED_OPERATORS:
        _parsed_operands(expression)


def _matches_list(expression: MatchExpression, value: str) -> bool:
    if expression.op == "InRegexp":
        patterns = [compile_regexp(pattern) for pattern in expression.value]  # compiles all: an invalid one is an error
        content = encoded(value)
        return any(pattern.search(content) for pattern in patterns)
    return (value in expression.value) == (expression.op == "In")


def _matches_comparison(expression: MatchExpression, value: str) -> bool:
    number = _parsed(expression, value)
    operands = _parsed_operands(expression)
    if expression.op in _COMPARISONS:
        return _COMPARISONS[expression.op](number, operands[0])
    above, below = _RANGES[expression.op]
    return above(number, operands[0]) and below(number, operands[1])


def _parsed_operands(expression: MatchExpression) -> list[Any]:
    operands = [_parsed(expression, operand) for operand in expression.value]
    # NFD does not check the order of versions
    if expression.op in _RANGES and expression.type != VERSION and operands[0] >= operands[1]:
        raise RuleError(f"operator {expression.op} needs a first value that is less than the second one, and not "
                        f"{_shown(expression)}")  # fmt: skip
    return operands


def _parsed(expression: MatchExpression, text: str) -> Any:  # noqa: ANN401 -- a number or a version: both compare
    try:
        return parse_version(text) if expression.type == VERSION else parse_integer(text)
    except ValueError as error:
        raise RuleError(f"operator {expression.op}: {error}") from error


def _shown(expression: MatchExpression) -> str:
    return repr(list(expression.value))[:200]
