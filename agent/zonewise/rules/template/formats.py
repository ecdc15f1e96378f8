"""Go's fmt.Sprintf, for the verbs that make sense for texts and whole numbers."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.rules.template.values import as_list, as_map, kind, limited, printed
from zonewise.rules.types import RuleError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise.rules.template.values import Value

_VERB = re.compile(r"%([-+# 0]*)(\d*)(?:\.(\d*))?(.?)", re.DOTALL)
_MAX_WIDTH = 1000
_INTEGERS: dict[str, Callable[[int], str]] = {
    "d": str,
    "x": lambda number: f"{number:x}",
    "X": lambda number: f"{number:X}",
    "o": lambda number: f"{number:o}",
    "b": lambda number: f"{number:b}",
}
_PREFIXES = {"x": "0x", "X": "0X", "b": "0b", "o": "0"}
_QUOTED = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\",
           '"': '\\"'}  # fmt: skip


def sprintf(form: str, values: Sequence[Value]) -> str:
    """Return the formatted text. Raises RuleError if verbs and values do not match, for which Go prints %!d(...)."""
    parts: list[str] = []
    position = used = 0
    for match in _VERB.finditer(form):
        parts.append(form[position : match.start()])
        position = match.end()
        if match[4] == "%":
            parts.append("%")
            continue
        if used >= len(values):
            raise RuleError(f"printf: no value for {match[0]!r}")
        parts.append(_formatted(match, values[used]))
        used += 1
    if used < len(values):
        raise RuleError(f"printf: {len(values) - used} more values than verbs in {form[:100]!r}")
    return limited("".join([*parts, form[position:]]))


def _formatted(match: re.Match[str], value: Value) -> str:
    flags, verb = match[1], match[4]
    width, precision = int(match[2][:9] or 0), None if match[3] is None else int(match[3][:9] or 0)
    if width > _MAX_WIDTH or (precision or 0) > _MAX_WIDTH:
        raise RuleError(f"printf: {match[0][:50]!r} is wider than {_MAX_WIDTH}")
    if verb in (*_INTEGERS, "v") and isinstance(value, int) and not isinstance(value, bool):
        return _number(flags, width, precision, "d" if verb == "v" else verb, value)
    if "#" in flags or (verb in ("q", "x", "X") and {"+", " "} & set(flags)):
        raise RuleError(f"printf: {match[0][:50]!r} has a flag that is supported only for numbers")
    if isinstance(value, str) and verb in ("x", "X"):
        text = value.encode("utf-8", "replace")[:precision].hex()
        return _padded(text.upper() if verb == "X" else text, flags, width)
    if as_list(value) is not None or as_map(value) is not None:
        return _collection(match, value)
    return _padded(_text(match, value, precision), flags, width)


def _collection(match: re.Match[str], value: Value) -> str:
    """Return the text of a list or a map, to whose elements Go would apply the width and the precision."""
    if match[1] or match[2] or match[3] is not None:
        raise RuleError(f"printf: {match[0][:50]!r} does not print a {kind(value)}, use %v")
    return _text(match, value, None)


def _text(match: re.Match[str], value: Value, precision: int | None) -> str:
    verb = match[4]
    if isinstance(value, str) and verb in ("s", "v", "q"):
        text = value[:precision]
        quoted = (_QUOTED.get(character) or _printable(character) for character in text)
        return text if verb != "q" else f'"{"".join(quoted)}"'
    if verb == "v" or (verb == "s" and _has_only_texts(value)):
        return "<nil>" if value is None else printed(value)
    if verb == "t" and isinstance(value, bool):
        return printed(value)
    raise RuleError(f"printf: {match[0][:50]!r} does not print a {kind(value)}")


def _has_only_texts(value: Value) -> bool:
    """Return whether a value is a text, or contains nothing but texts."""
    entries = as_map(value)
    items = as_list(value) if entries is None else list(entries.values())
    return isinstance(value, str) if items is None else all(map(_has_only_texts, items))


def _printable(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _number(flags: str, width: int, precision: int | None, verb: str, value: int) -> str:
    digits = _INTEGERS[verb](abs(value)).rjust(precision or 0, "0")
    if precision == 0 and value == 0:
        return " " * width
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    if "#" in flags and verb in _PREFIXES and not (verb == "o" and digits.startswith("0")):
        digits = f"{_PREFIXES[verb]}{digits}"
    if "0" in flags and "-" not in flags and precision is None:
        digits = digits.rjust(width - len(sign), "0")
    return _padded(sign + digits, flags, width)


def _padded(text: str, flags: str, width: int) -> str:
    return text.ljust(width) if "-" in flags else text.rjust(width)
