"""Functions of sprig (github.com/Masterminds/sprig/v3) that are useful for labels: texts, lists, numbers, defaults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.rules.numbers import parse_integer
from zonewise.rules.regexps import compile_regexp, encoded
from zonewise.rules.template.arguments import items_of, number_of, text_of, to_number, to_text
from zonewise.rules.template.formats import sprintf
from zonewise.rules.template.values import as_list, is_true, kind, limited, printed, wrapped
from zonewise.rules.types import RuleError
from zonewise.rules.white_space import WHITE_SPACE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise.rules.template.values import Value

ANY_NUMBER = 1 << 30
_NO_WHITE_SPACE = dict.fromkeys(map(ord, WHITE_SPACE))


class Function(NamedTuple):
    """A function, and the number of arguments that it accepts."""

    call: Callable[..., Value]
    fewest: int
    most: int


def _text_function(name: str, function: Callable[..., Value], count: int) -> Function:
    """Return a template function that takes `count` texts."""

    def call(*values: Value) -> Value:
        result = function(*(text_of(value, name) for value in values))
        return limited(result) if isinstance(result, str) else result

    return Function(call, count, count)


def _replace(old: str, new: str, text: str) -> str:
    if len(text) + (text.count(old) * max(0, len(new) - len(old))) > 1 << 20:
        raise RuleError("replace: the result is too long")
    return text.replace(old, new)


def _trim_prefix(prefix: str, text: str) -> str:
    return text.removeprefix(prefix)


def _trim_suffix(suffix: str, text: str) -> str:
    return text.removesuffix(suffix)


def _title(text: str) -> str:
    """Return a text with upper-case letters after separators: ASCII except letters, digits and "_", and white space
    (Go's strings.Title).
    """
    return re.sub(r"(?<!\w)(?<![^\x00-\x7f\s])\w", lambda match: match[0].upper(), text)


def _trunc(count: Value, text: Value) -> str:
    limit, content = number_of(count, "trunc"), encoded(text_of(text, "trunc"))
    start = len(content) + limit if limit < 0 else 0
    return _part(content, max(start, 0), len(content) if limit < 0 else limit)


def _substr(start: Value, end: Value, text: Value) -> str:
    first, last = number_of(start, "substr"), number_of(end, "substr")
    content = encoded(text_of(text, "substr"))
    if first >= 0 and not 0 <= last <= len(content):
        last = len(content)
    if not max(first, 0) <= last <= len(content):
        raise RuleError(f"substr: {first} to {last} is out of range: the string has {len(content)} bytes")
    return _part(content, max(first, 0), last)


def _part(content: bytes, start: int, end: int) -> str:
    """Return a part of a text's bytes, in which a divided character becomes U+FFFD, as Go writes it in JSON."""
    return content[start:end].decode("utf-8", "replace")


def _repeat(count: Value, text: Value) -> str:
    times, content = number_of(count, "repeat"), text_of(text, "repeat")
    if times < 0 or times * len(content) > 1 << 16:
        raise RuleError(f"repeat: {times} repetitions are too many")
    return content * times


def _quote(*values: Value) -> str:
    return " ".join(sprintf("%q", [to_text(value)]) for value in values if value is not None)


def _squote(*values: Value) -> str:
    return " ".join(f"'{to_text(value)}'" for value in values if value is not None)


def _cat(*values: Value) -> str:
    return " ".join(to_text(value) for value in values if value is not None)


def _regex_match(pattern: str, text: str) -> bool:
    return compile_regexp(pattern).search(encoded(text)) is not None


def _atoi(text: str) -> int:
    try:
        return parse_integer(text)
    except ValueError:
        return 0


# --- sprig: lists and defaults


def _split_list(separator: str, text: str) -> Value:
    return text.split(separator) if separator else list(text)


def _split(separator: str, text: str) -> Value:
    parts = text.split(separator) if separator else list(text)
    return {f"_{i}": part for i, part in enumerate(parts)}


def _join(separator: Value, value: Value) -> str:
    items = as_list(value)
    texts = [printed(value)] if items is None and value is not None else _texts(items or [])
    joint = text_of(separator, "join")
    if sum(map(len, texts)) + len(joint) * len(texts) > 1 << 20:
        raise RuleError("join: the result is too long")
    return limited(joint.join(texts))


def _texts(items: Sequence[Value]) -> list[str]:
    """Return the items as texts, without nil (sprig's strslice)."""
    return [to_text(item) for item in items if item is not None]


def _first(value: Value) -> Value:
    items = items_of(value, "first")
    return items[0] if items else None


def _last(value: Value) -> Value:
    items = items_of(value, "last")
    return items[-1] if items else None


def _has(needle: Value, value: Value) -> bool:
    return value is not None and any(kind(item) == kind(needle) and item == needle for item in items_of(value, "has"))


def _uniq(value: Value) -> Value:
    unique: dict[tuple[str, str], Value] = {}
    for item in items_of(value, "uniq"):
        unique.setdefault((kind(item), printed(item)), item)
    return list(unique.values())


def _append(value: Value, item: Value) -> Value:
    return _flat([*items_of(value, "append"), item])


def _prepend(value: Value, item: Value) -> Value:
    return _flat([item, *items_of(value, "prepend")])


def _concat(*values: Value) -> Value:
    return [item for value in values for item in items_of(value, "concat")]


def _slice(value: Value, *bounds: Value) -> Value:
    items = items_of(value, "slice")
    first, last = ([number_of(bound, "slice") for bound in bounds] + [0, len(items)][len(bounds) :])[:2]
    if not items:
        return []
    if not 0 <= first <= last <= len(items):
        raise RuleError(f"slice: {first} to {last} is out of range: the list has {len(items)} elements")
    return items[first:last]


def _default(fallback: Value, value: Value = None) -> Value:
    return value if is_true(value) else fallback


def _coalesce(*values: Value) -> Value:
    return next((value for value in values if is_true(value)), None)


def _ternary(positive: Value, negative: Value, condition: Value) -> Value:
    if not isinstance(condition, bool):
        raise RuleError(f"ternary needs a truth value, and not a {kind(condition)}")
    return positive if condition else negative


# --- sprig: numbers


def _sum(*values: Value) -> int:
    return wrapped(sum(map(to_number, values)))


def _product(*values: Value) -> int:
    result = 1
    for value in values:
        result = wrapped(result * to_number(value))
    return result


def _sub(first: Value, second: Value) -> int:
    return wrapped(to_number(first) - to_number(second))


def _div(first: Value, second: Value) -> int:
    dividend, divisor = to_number(first), to_number(second)
    if not divisor:
        raise RuleError("div: division by zero")
    quotient = abs(dividend) // abs(divisor)
    return wrapped(quotient if (dividend < 0) == (divisor < 0) else -quotient)


def _mod(first: Value, second: Value) -> int:
    dividend, divisor = to_number(first), to_number(second)
    if not divisor:
        raise RuleError("mod: division by zero")
    remainder = abs(dividend) % abs(divisor)
    return -remainder if dividend < 0 else remainder


def _trim(text: str) -> str:
    return text.strip(WHITE_SPACE)


def _trim_all(cut: str, text: str) -> str:
    return text.strip(cut) if cut else text


def _no_space(text: str) -> str:
    return text.translate(_NO_WHITE_SPACE)


def _contains(part: str, text: str) -> bool:
    return part in text


def _has_prefix(prefix: str, text: str) -> bool:
    return text.startswith(prefix)


def _has_suffix(suffix: str, text: str) -> bool:
    return text.endswith(suffix)


def _list(*values: Value) -> Value:
    return _flat(list(values))


def _flat(items: list[Value]) -> Value:
    """Return a list. Raises RuleError if it contains lists, which could double the size with each of them."""
    if any(as_list(item) is not None for item in items):
        raise RuleError("a list of lists is not supported")
    return items


def _rest(value: Value) -> Value:
    return list(items_of(value, "rest")[1:])


def _initial(value: Value) -> Value:
    return list(items_of(value, "initial")[:-1])


def _reverse(value: Value) -> Value:
    return list(reversed(items_of(value, "reverse")))


def _sort_alpha(value: Value) -> Value:
    return sorted(_texts(items_of(value, "sortAlpha")))


def _empty(value: Value) -> bool:
    return not is_true(value)


def _add1(value: Value) -> int:
    return _sum(value, 1)


def _max(*values: Value) -> int:
    return max(map(to_number, values))


def _min(*values: Value) -> int:
    return min(map(to_number, values))


SPRIG: dict[str, Function] = {
    "trim": _text_function("trim", _trim, 1),
    "trimAll": _text_function("trimAll", _trim_all, 2),
    "trimPrefix": _text_function("trimPrefix", _trim_prefix, 2),
    "trimSuffix": _text_function("trimSuffix", _trim_suffix, 2),
    "upper": _text_function("upper", str.upper, 1),
    "lower": _text_function("lower", str.lower, 1),
    "title": _text_function("title", _title, 1),
    "nospace": _text_function("nospace", _no_space, 1),
    "replace": _text_function("replace", _replace, 3),
    "contains": _text_function("contains", _contains, 2),
    "hasPrefix": _text_function("hasPrefix", _has_prefix, 2),
    "hasSuffix": _text_function("hasSuffix", _has_suffix, 2),
    "regexMatch": _text_function("regexMatch", _regex_match, 2),
    "splitList": _text_function("splitList", _split_list, 2),
    "split": _text_function("split", _split, 2),
    "atoi": _text_function("atoi", _atoi, 1),
    "trunc": Function(_trunc, 2, 2),
    "substr": Function(_substr, 3, 3),
    "repeat": Function(_repeat, 2, 2),
    "quote": Function(_quote, 0, ANY_NUMBER),
    "squote": Function(_squote, 0, ANY_NUMBER),
    "cat": Function(_cat, 0, ANY_NUMBER),
    "toString": Function(to_text, 1, 1),
    "join": Function(_join, 2, 2),
    "list": Function(_list, 0, ANY_NUMBER),
    "first": Function(_first, 1, 1),
    "last": Function(_last, 1, 1),
    "rest": Function(_rest, 1, 1),
    "initial": Function(_initial, 1, 1),
    "reverse": Function(_reverse, 1, 1),
    "sortAlpha": Function(_sort_alpha, 1, 1),
    "uniq": Function(_uniq, 1, 1),
    "has": Function(_has, 2, 2),
    "append": Function(_append, 2, 2),
    "prepend": Function(_prepend, 2, 2),
    "concat": Function(_concat, 0, ANY_NUMBER),
    "slice": Function(_slice, 1, 3),
    "default": Function(_default, 1, 2),
    "empty": Function(_empty, 1, 1),
    "coalesce": Function(_coalesce, 0, ANY_NUMBER),
    "ternary": Function(_ternary, 3, 3),
    "int": Function(to_number, 1, 1),
    "int64": Function(to_number, 1, 1),
    "add": Function(_sum, 0, ANY_NUMBER),
    "add1": Function(_add1, 1, 1),
    "sub": Function(_sub, 2, 2),
    "mul": Function(_product, 1, ANY_NUMBER),
    "div": Function(_div, 2, 2),
    "mod": Function(_mod, 2, 2),
    "max": Function(_max, 1, ANY_NUMBER),
    "min": Function(_min, 1, ANY_NUMBER),
}
"""Functions by name. `slice` is sprig's, which hides Go's own."""
