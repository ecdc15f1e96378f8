"""Quantities, compared with exact fractions and with the results of apimachinery's own parser."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zonewise_common.k8s.quantity import (
    format_binary_quantity,
    format_quantity,
    parse_milli_value,
    parse_nano_value,
    parse_value,
)

LARGEST = (1 << 63) - 1
POWERS = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    **{name: Fraction(1000**power) for power, name in enumerate("kMGTPE", 1)},
    **{f"{name}i": Fraction(1024**power) for power, name in enumerate("KMGTPE", 1)},
    "e-3": Fraction(1, 1000),
    "e5": Fraction(10**5),
    "E+2": Fraction(100),
}
NUMBERS = st.from_regex(r"(0|[0-9]{1,20})(\.[0-9]{0,12})?|\.[0-9]{1,12}", fullmatch=True)


def binary_multiple(number: int, power: int) -> int:
    return number << 10 * power


def rounded(value: Fraction) -> int:
    """Return the value rounded away from zero."""
    return math.ceil(value) if value > 0 else math.floor(value)


@given(st.sampled_from(["", "+", "-"]), NUMBERS, st.sampled_from(sorted(POWERS)))
def test_value_is_the_exact_fraction_rounded_once(sign: str, number: str, suffix: str) -> None:
    """In any form, the result is the exact value, capped at 2^63-1 and rounded away from zero."""
    whole, _, fraction = number.partition(".")
    exact = (Fraction(int(whole or "0")) + Fraction(int(fraction or "0"), 10 ** len(fraction))) * POWERS[suffix]
    capped = min(exact, Fraction(LARGEST)) * (-1 if sign == "-" else 1)
    assert parse_value(sign + number + suffix) == rounded(capped)
    assert parse_milli_value(sign + number + suffix) == rounded(capped * 1000)
    assert parse_nano_value(sign + number + suffix) == rounded(capped * 10**9)


@pytest.mark.parametrize(
    ("text", "value", "milli"),
    [
        ("0", 0, 0),
        ("1500m", 2, 1500),
        ("0.1", 1, 100),
        ("100n", 1, 1),
        ("1.5Gi", 1610612736, 1610612736000),
        ("0.5Ki", 512, 512000),
        ("5.", 5, 5000),
        (".5", 1, 500),
        ("+1k", 1000, 1000000),
        ("12E", LARGEST, LARGEST * 1000),
        ("1E3", 1000, 1000000),
        ("1e-3", 1, 1),
        ("1Ei", 1 << 60, (1 << 60) * 1000),
        ("-1.1", -2, -1100),
        ("1e999999999999", LARGEST, LARGEST * 1000),
        ("1e-999999999999", 1, 1),
        ("0e999999999999", 0, 0),
        ("0000000000000000000000000000000000000001", 1, 1000),
    ],
)
def test_known_texts(text: str, value: int, milli: int) -> None:
    assert (parse_value(text), parse_milli_value(text)) == (value, milli)


@given(st.integers(-LARGEST, LARGEST))
def test_numbers_are_quantities(number: int) -> None:
    """A JSON number is accepted unchanged."""
    assert parse_value(number) == number
    assert parse_milli_value(number) == number * 1000


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1K", "1ki", "1KI", "1kk", "1mi", "m", ".", "+", "-", "--1", "1.2.3", "0x10", "1_000", "1e", "1e+",
     "1e1.5", "1Gi1", "١", "1,5", "NaN", "inf", "1\n", "9" * 5000],
)  # fmt: skip
def test_errors_name_what_is_not_a_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity: ") as caught:
        parse_value(text)
    assert len(str(caught.value)) < 120


@given(st.text(max_size=30) | st.text("0123456789.+-eEKMGTPEinumk", max_size=12))
def test_any_text_gives_a_number_or_a_value_error(text: str) -> None:
    try:
        assert abs(parse_value(text)) <= LARGEST
    except ValueError as error:
        assert str(error).startswith("not a quantity: ")  # noqa: PT017 -- most texts are none


@given(st.integers(-(10**30), 10**30))
@example(0)
@example(10**21)
def test_the_canonical_text_is_the_shortest(number: int) -> None:
    """No digits are lost, and no larger suffix would be exact; exa is the largest suffix."""
    text = format_quantity(number)
    digits, suffix = text.rstrip("kMGTPE"), text.lstrip("-0123456789")
    assert int(digits) * POWERS[suffix] == number
    assert suffix == "E" or number == 0 or int(digits) % 1000


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (12_000_000, "12M"), (1024, "1024"), (-5000, "-5k"), (10**18, "1E"), (1500, "1500")]
)
def test_known_canonical_texts(number: int, text: str) -> None:
    assert format_quantity(number) == text


@given(st.integers(0, LARGEST) | st.builds(binary_multiple, st.integers(0, 2000), st.integers(0, 5)))
def test_binary_text_is_canonical(number: int) -> None:
    text = format_binary_quantity(number)
    assert parse_value(text) == number
    assert not number or not text.removesuffix("i").isdecimal() or number % 1024


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (1000, "1000"), (2048, "2Ki"), (3 << 40, "3Ti"), (1 << 60, "1Ei")]
)
def test_binary_text_has_the_largest_suffix(number: int, text: str) -> None:
    assert format_binary_quantity(number) == text
