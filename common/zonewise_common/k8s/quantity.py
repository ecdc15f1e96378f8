"""Kubernetes quantities ("1500m", "4Gi", "1e3"), parsed exactly, without floats.

The grammar, the rounding and the cap are those of apimachinery's pkg/api/resource/quantity.go.

parse_value(), parse_milli_value() and parse_nano_value() parse any text. quantity_value() and quantity_milli_value()
read a JSON value of an object. They reject negative values. They cache results, since most nodes and pods of a cluster
have the same quantities.
"""

from __future__ import annotations

import re
from functools import lru_cache

_GRAMMAR = re.compile(
    r"(?P<sign>[+-]?)"
    r"(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?:(?P<binary>[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]+)|(?P<decimal>[numkMGTPE]?))",
    re.ASCII,
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_SUFFIXES = tuple(name for name, exponent in _DECIMAL.items() if exponent >= 0)
_BINARY = {f"{name}i": 10 * power for power, name in enumerate("KMGTPE", 1)}

_LARGEST = (1 << 63) - 1
"""The largest magnitude of a quantity; larger texts are capped."""

_MAX_LENGTH = 1024  # a longer text is garbage, and the time to parse it would grow with its length
_MAX_EXPONENT = 2 * _MAX_LENGTH  # above it, no _MAX_LENGTH digits give a value between the smallest one and the cap
_CACHE_SIZE = 1 << 14


def parse_value(value: str | int) -> int:
    """Return a quantity in its unit (bytes, counts), with fractions rounded away from zero as Quantity.Value() does.

    Raises ValueError with the text if it is not a quantity.
    """
    return _scaled(value, 0)


def parse_milli_value(value: str | int) -> int:
    """Return a quantity in thousandths of its unit (milli-CPU), rounded as Quantity.MilliValue() does.

    Raises ValueError with the text if it is not a quantity.
    """
    return _scaled(value, 3)


def parse_nano_value(value: str | int) -> int:
    """Return a quantity in billionths of its unit. No quantity is more precise, so only this value is not rounded.

    Raises ValueError with the text if it is not a quantity.
    """
    return _scaled(value, 9)


def format_quantity(number: int) -> str:
    """Return the canonical DecimalSI text of a whole number, with the largest lossless suffix (12000 -> "12k")."""
    thousands = 0
    while number and not number % 1000 and thousands < len(_SUFFIXES) - 1:
        number //= 1000
        thousands += 1
    return f"{number}{_SUFFIXES[thousands]}"


def format_binary_quantity(number: int) -> str:
    """Return the canonical BinarySI text of a whole number, with the largest lossless suffix (2048 -> "2Ki")."""
    powers = 0
    while number and not number % 1024 and powers < len("KMGTPE"):
        number //= 1024
        powers += 1
    return f"{number}{'KMGTPE'[powers - 1]}i" if powers else str(number)


def quantity_value(value: object) -> int:
    """Return the quantity of a JSON value in its unit (bytes, counts), rounded up as Quantity.Value() does.

    Raises ValueError with the value if it is negative or not a quantity.
    """
    try:
        return _cached_value(value)
    except TypeError:  # lists and objects are unhashable
        raise _not_a_quantity(value) from None


def quantity_milli_value(value: object) -> int:
    """Return the quantity of a JSON value in thousandths of its unit, rounded up as Quantity.MilliValue() does.

    Raises ValueError with the value if it is negative or not a quantity.
    """
    try:
        return _cached_milli_value(value)
    except TypeError:
        raise _not_a_quantity(value) from None


@lru_cache(_CACHE_SIZE, typed=True)
def _cached_value(value: object) -> int:
    return _not_negative(parse_value(_text(value)), value)


@lru_cache(_CACHE_SIZE, typed=True)
def _cached_milli_value(value: object) -> int:
    return _not_negative(parse_milli_value(_text(value)), value)


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    raise _not_a_quantity(value)


def _not_a_quantity(value: object) -> ValueError:
    return ValueError(f"not a quantity: {str(value)[:80]!r}")


def _not_negative(size: int, value: object) -> int:
    if size < 0:
        raise ValueError(f"negative: {str(value)[:80]!r}")
    return size


def _scaled(value: str | int, decimals: int) -> int:
    """Return a quantity times 10^decimals."""
    text = str(value)
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    # the scanner of quantity.go reads "." and "m" as zero; the grammar in its documentation requires a digit
    if match is None or not (match["whole"] or match["fraction"]):
        raise ValueError(f"not a quantity: {text[:80]!r}")
    fraction = match["fraction"] or ""
    mantissa = int(match["whole"] + fraction) << _BINARY.get(match["binary"], 0)
    size = _shifted(mantissa, _exponent(match) - len(fraction), decimals)
    return -size if match["sign"] == "-" else size


def _exponent(match: re.Match[str]) -> int:
    if match["exponent"] is None:
        return _DECIMAL[match["decimal"] or ""]
    return max(-_MAX_EXPONENT, min(int(match["exponent"]), _MAX_EXPONENT))


def _shifted(mantissa: int, exponent: int, decimals: int) -> int:
    """Return mantissa * 10^(exponent + decimals), rounded up. The value is capped before `decimals` is applied."""
    if exponent >= 0:
        return min(mantissa * 10**exponent, _LARGEST) * 10**decimals
    divisor = 10**-exponent
    if mantissa > _LARGEST * divisor:
        return _LARGEST * 10**decimals
    return -(-mantissa * 10**decimals // divisor)
