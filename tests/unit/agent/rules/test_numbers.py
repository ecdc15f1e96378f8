"""Numbers and versions, parsed like in Go."""

from __future__ import annotations

import pytest

from zonewise.rules.numbers import parse_integer, parse_version


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5), ("-5", -5), ("+5", 5), ("007", 7), ("-0", 0), (str(2**63 - 1), 2**63 - 1), (str(-(2**63)), -(2**63))],
)
def test_integers(text: str, number: int) -> None:
    assert parse_integer(text) == number


@pytest.mark.parametrize(
    "text", ["", "+", " 5", "5 ", "5_0", "1.5", "0x10", "٥", "²", "5\n", str(2**63), str(-(2**63) - 1), "9" * 9000]
)
def test_invalid_integers(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a whole number|out of the range"):
        parse_integer(text)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("5", (5, 0, 0)),
        ("v1.2", (1, 2, 0)),
        ("01.02.03", (1, 2, 3)),
        ("6.8.0-45-generic", (6, 8, 0)),
        ("1.2.3-rc.1+b", (1, 2, 3)),
    ],
)
def test_versions(text: str, version: tuple[int, int, int]) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize(
    "text", ["", "x", "1.", "1.2.3.4", "V1", "1.2.3-01", "1.2.3-", "1.2.3-a..b", " 1", "1\n", str(2**64), "1" * 257]
)
def test_invalid_versions(text: str) -> None:
    with pytest.raises(ValueError, match="not a version"):
        parse_version(text)
