"""Reads and checks the arguments of template functions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.rules.template.values import as_list, kind, printed
from zonewise.rules.types import RuleError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise.rules.template.values import Value

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0[oO][0-7]+|0[0-7]*|[1-9][0-9]*)")
_MAX_DIGITS = 100


def text_of(value: Value, function: str) -> str:
    """Return a text. Raises RuleError, naming the function, for another value."""
    if isinstance(value, str):
        return value
    raise RuleError(f"{function} needs a string, not a {kind(value)}")


def number_of(value: Value, function: str) -> int:
    """Return a number. Raises RuleError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise RuleError(f"{function} needs a number, not a {kind(value)}")


def items_of(value: Value, function: str) -> Sequence[Value]:
    """Return the items of a list. Raises RuleError."""
    items = as_list(value)
    if items is None:
        raise RuleError(f"{function} needs a list, not a {kind(value)}")
    return items


def to_number(value: Value) -> int:
    """Return a number from any value; 0 if the value is not a number (github.com/spf13/cast ToInt64)."""
    if isinstance(value, int):
        return int(value)
    text = value if isinstance(value, str) and len(value) <= _MAX_DIGITS else ""
    if not _NUMBER.fullmatch(text):
        return 0
    digits, sign = text.lstrip("+-"), -1 if text.startswith("-") else 1
    number = sign * int(digits, 8 if re.fullmatch(r"0[0-7]+", digits) else 0)
    return number if -(1 << 63) <= number < 1 << 63 else 0


def to_text(value: Value) -> str:
    """Return a text from any value."""
    return "<nil>" if value is None else printed(value)
