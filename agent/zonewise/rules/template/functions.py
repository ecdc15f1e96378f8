"""The functions of templates: those of Go's text/template/funcs.go, and several of sprig's."""

from __future__ import annotations

from typing import cast

from zonewise.rules.regexps import encoded
from zonewise.rules.template.arguments import number_of, text_of, to_text
from zonewise.rules.template.formats import sprintf
from zonewise.rules.template.sprig import ANY_NUMBER, SPRIG, Function
from zonewise.rules.template.values import Value, as_list, as_map, is_true, kind, limited
from zonewise.rules.types import RuleError

SHORT_CIRCUIT = ("and", "or")
"""Functions whose later arguments are evaluated only if they are needed."""


def _not(value: Value) -> bool:
    return not is_true(value)


def _len(value: Value) -> int:
    if isinstance(value, str):
        return len(encoded(value))
    if (items := as_list(value)) is not None:
        return len(items)
    if (entries := as_map(value)) is not None:
        return len(entries)
    raise RuleError(f"len needs a text, a list or a map, and not a {kind(value)}")


def _index(value: Value, *keys: Value) -> Value:
    for key in keys:
        if (entries := as_map(value)) is not None:
            name = text_of(key, "index of a map")
            value = entries[name] if name in entries else _zero(list(entries.values()))
        elif (items := as_list(value)) is not None or isinstance(value, str):
            sequence = items if items is not None else encoded(cast("str", value))
            position = number_of(key, "index of a list")
            if not 0 <= position < len(sequence):
                raise RuleError(f"index: {position} is out of range: the sequence has {len(sequence)} elements")
            value = sequence[position]
        else:
            raise RuleError(f"index: a {kind(value)} has no elements")
    return value


def _zero(others: list[Value]) -> Value:
    """Return the value that a Go map gives for a missing key, judged by its other values."""
    if others and as_list(others[0]) is not None:
        return []
    return {} if others and as_map(others[0]) is not None else ""


def _comparable(first: Value, second: Value, name: str) -> None:
    if None in (first, second) and name == "eq":
        return
    kinds = {kind(first), kind(second)}
    if len(kinds) > 1 or kinds & {"list", "map", "nil"}:
        raise RuleError(f"{name}: a {kind(first)} and a {kind(second)} are not comparable")


def _eq(first: Value, *others: Value) -> bool:
    for other in others:
        _comparable(first, other, "eq")
        if first == other:
            return True
    return False


def _ne(first: Value, second: Value) -> bool:
    return not _eq(first, second)


def _lt(first: Value, second: Value) -> bool:
    _comparable(first, second, "lt")
    if isinstance(first, bool):
        raise RuleError("lt: truth values have no order")
    if isinstance(first, str):
        return encoded(first) < encoded(cast("str", second))
    return cast("int", first) < cast("int", second)


def _le(first: Value, second: Value) -> bool:
    return _lt(first, second) or _eq(first, second)


def _print(*values: Value) -> str:
    parts: list[str] = []
    for i, value in enumerate(values):
        # fmt.Sprint: a space between operands where neither is a text
        if i and not isinstance(value, str) and not isinstance(values[i - 1], str):
            parts.append(" ")
        parts.append(to_text(value))
    return limited("".join(parts))


def _println(*values: Value) -> str:
    return limited(" ".join(map(to_text, values)) + "\n")


def _gt(first: Value, second: Value) -> bool:
    return not _le(first, second)


def _ge(first: Value, second: Value) -> bool:
    return not _lt(first, second)


def _printf(form: Value, *values: Value) -> str:
    return sprintf(text_of(form, "printf"), values)


FUNCTIONS: dict[str, Function] = {
    "not": Function(_not, 1, 1),
    "len": Function(_len, 1, 1),
    "index": Function(_index, 1, ANY_NUMBER),
    "eq": Function(_eq, 2, ANY_NUMBER),
    "ne": Function(_ne, 2, 2),
    "lt": Function(_lt, 2, 2),
    "le": Function(_le, 2, 2),
    "gt": Function(_gt, 2, 2),
    "ge": Function(_ge, 2, 2),
    "print": Function(_print, 0, ANY_NUMBER),
    "println": Function(_println, 0, ANY_NUMBER),
    "printf": Function(_printf, 1, ANY_NUMBER),
    **SPRIG,
}
"""Functions by name."""
