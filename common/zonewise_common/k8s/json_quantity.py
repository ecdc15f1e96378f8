"""Quantities of JSON objects as integers: read once for all nodes and pods that have the same."""

from __future__ import annotations

from functools import lru_cache

from zonewise_common.k8s.quantity import parse_milli_value, parse_value

_CACHED = 1 << 14


def quantity_value(value: object) -> int:
    """Return a quantity in its unit (bytes, counts), fractions rounded up as Quantity.Value() does.

    Raises ValueError, naming the value, for what is no quantity or negative.
    """
    try:
        return _whole(value)
    except TypeError:  # a list or an object has no hash
        raise _strange(value) from None


def quantity_milli_value(value: object) -> int:
    """Return a quantity in thousandths of its unit (milli-CPU), rounded up as Quantity.MilliValue() does.

    Raises ValueError, naming the value, for what is no quantity or negative.
    """
    try:
        return _milli(value)
    except TypeError:
        raise _strange(value) from None


@lru_cache(_CACHED, typed=True)
def _whole(value: object) -> int:
    return _not_negative(parse_value(_text(value)), value)


@lru_cache(_CACHED, typed=True)
def _milli(value: object) -> int:
    return _not_negative(parse_milli_value(_text(value)), value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise _strange(value)


def _strange(value: object) -> ValueError:
    return ValueError(f"not a quantity: {str(value)[:80]!r}")


def _not_negative(size: int, value: object) -> int:
    if size < 0:
        raise ValueError(f"negative: {str(value)[:80]!r}")
    return size
