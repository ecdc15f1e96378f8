"""Amounts: signed 64-bit integers, and "unlimited", which sums and differences preserve."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.amount import (
    MIN_AMOUNT,
    UNLIMITED,
    amount_from_quantity,
    amount_text,
    hash_resource_name,
    minus,
    plus,
    resource_value,
)

AMOUNTS = st.sampled_from([MIN_AMOUNT, -1, 0, 1, UNLIMITED - 1, UNLIMITED]) | st.integers(MIN_AMOUNT, UNLIMITED)


@given(AMOUNTS, AMOUNTS)
@example(MIN_AMOUNT, -1)
@example(MIN_AMOUNT, 1)
@example(1, 2**63 - 1)
@example(2**63 - 1, 1)
@example(2**63 - 1, 2**63 - 1)
def test_sums_and_differences_are_limited_to_64_bits(a: int, b: int) -> None:
    """A sum or difference beyond the range is replaced by the nearest bound."""
    for amount, exact in ((plus(a, b), a + b), (minus(a, b), a - b)):
        assert amount == sorted((MIN_AMOUNT, exact, UNLIMITED))[1] or UNLIMITED in (a, b)
    assert plus(a, UNLIMITED) == plus(UNLIMITED, b) == UNLIMITED
    assert a != UNLIMITED or minus(a, b) == (0 if b == UNLIMITED else UNLIMITED)
    assert b != UNLIMITED or minus(a, b) == (0 if a == UNLIMITED else MIN_AMOUNT)


@pytest.mark.parametrize(
    ("resource", "quantity", "quota", "request_"),
    [
        ("cpu", "1500m", 1_500, 1_500),
        ("cpu", "1.0001", 1_001, 1_001),
        ("memory", "1Gi", 1 << 30, 1 << 30),
        ("memory", "0.5", 1, 1),
        ("cpu", "9P", 9 * 10**18, 9 * 10**18),
        ("cpu", "10P", UNLIMITED, UNLIMITED),
        ("memory", "9E", 9 * 10**18, 9 * 10**18),
        ("memory", "10E", UNLIMITED, UNLIMITED),
        ("".join(["c", "pu"]), "2", 2_000, 2_000),
        ("amd.com/gpu", "2", 2, 2),
        ("pods", "2", 2, 2),
    ],
)
def test_quantities(resource: str, quantity: str, quota: int, request_: int) -> None:
    assert (amount_from_quantity(resource, quantity), resource_value(resource, quantity)) == (quota, request_)


def test_amounts_have_64_bits() -> None:
    """The range is signed; its largest value represents an unlimited amount."""
    assert (MIN_AMOUNT, UNLIMITED) == (-(2**63), 2**63 - 1)


def test_an_invalid_quantity_is_an_error() -> None:
    with pytest.raises(ValueError, match="much"):
        amount_from_quantity("cpu", "much")


@given(st.sampled_from(["cpu", "memory", "hugepages-2Mi", "nvidia.com/gpu"]), st.integers(0, UNLIMITED // 1000))
def test_an_amount_is_read_as_it_was_written(resource: str, amount: int) -> None:
    assert resource_value(resource, amount_text(resource, amount)) == amount


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        ("cpu", 1500, "1500m"), ("cpu", 2000, "2"), ("cpu", 12_000_000, "12k"), ("memory", 3 << 30, "3Gi"),
        ("hugepages-2Mi", 2048, "2Ki"), ("nvidia.com/gpu", 8, "8"), ("pods", 0, "0"), ("amd.com/gpu", 1500, "1500"),
        ("".join(["c", "pu"]), 500, "500m"),
    ],
)  # fmt: skip
def test_an_amount_is_written_as_kueue_does(resource: str, amount: int, text: str) -> None:
    assert amount_text(resource, amount) == text


@pytest.mark.parametrize(
    ("name", "hashed"), [("", 0xCBF29CE484222325), ("a", 0xAF63DC4C8601EC8C), ("foobar", 0x85944171F73967E8)]
)
def test_names_have_the_published_hashes(name: str, hashed: int) -> None:
    """The test vectors of FNV-1a with 64 bits (draft-eastlake-fnv, appendix C)."""
    assert hash_resource_name(name) == hashed


def test_the_largest_64_bit_number_of_cpus_is_unlimited() -> None:
    """As a quota, this many CPUs are unlimited, and one less is a number. As a request they are a number, too."""
    most = UNLIMITED // 1000
    assert amount_from_quantity("cpu", most) == UNLIMITED
    assert amount_from_quantity("cpu", most - 1) == (most - 1) * 1000
    assert resource_value("cpu", most) == most * 1000
