"""Packed amounts behave like dictionaries of amounts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.pool_runs import unpack_request
from zonewise_scheduler.backfill.pool.packed_amounts import NARROW_BITS, WIDE_BITS, ResourcePacking

NAMES = ("cpu", "memory", "gpu")
most = {NARROW_BITS: (1 << 26) - 1, WIDE_BITS: (1 << 60) - 1}


def sizes(least: int, bits: int) -> st.SearchStrategy[dict[str, int]]:
    some = st.one_of(st.integers(least and -5, 5), st.integers(least * most[bits], most[bits]))
    return st.fixed_dictionaries(dict.fromkeys(NAMES, some))


@given(st.data(), st.sampled_from([NARROW_BITS, WIDE_BITS]))
def test_a_job_fits_if_enough_of_every_requested_resource_is_available(data: st.DataObject, bits: int) -> None:
    """An overcommitted resource is ignored if it is not requested; no field of a packed amount borrows from another."""
    packing = ResourcePacking(NAMES, bits)
    free, asked = data.draw(sizes(-1, bits)), data.draw(sizes(0, bits))
    available, demand = packing.pack_available(free), packing.pack_request(asked)
    fits = all(free[name] >= asked[name] for name in NAMES if asked[name])
    assert ((available - demand.amount) & demand.guards == demand.guards) is fits
    assert packing.unpack_available(available) == free
    assert unpack_request(packing, demand.amount) == asked
    assert packing.unpack_available(available - demand.amount + demand.amount) == free


def test_requests_are_added_and_subtracted_field_by_field() -> None:
    packing = ResourcePacking(NAMES)
    available = packing.pack_available({"cpu": 3, "memory": 1 << 40, "gpu": 0})
    available -= packing.pack_request({"cpu": 5, "memory": 1 << 39}).amount
    assert packing.unpack_available(available) == {"cpu": -2, "memory": 1 << 39, "gpu": 0}
    available += packing.pack_request({"cpu": 2, "gpu": 8}).amount
    assert packing.unpack_available(available) == {"cpu": 0, "memory": 1 << 39, "gpu": 8}


@pytest.mark.parametrize("bits", [NARROW_BITS, WIDE_BITS])
def test_an_overcommitted_resource_borrows_from_no_other(bits: int) -> None:
    """The fields are independent even if two of the largest requests are subtracted from the lowest valid amount."""
    packing = ResourcePacking(NAMES, bits)
    available = packing.pack_available({"cpu": -most[bits], "memory": 0, "gpu": 3})
    for _ in range(2):
        available -= packing.pack_request({"cpu": most[bits]}).amount
    assert packing.unpack_available(available) == {"cpu": -3 * most[bits], "memory": 0, "gpu": 3}


@pytest.mark.parametrize(
    ("amounts", "message"),
    [
        ({"cpus": 1}, "cpus: no such resource; there are cpu, memory, gpu"),
        ({"gpu": -1}, "gpu: -1 is not between 0 and"),
        ({"gpu": 1 << 60}, "gpu: 1152921504606846976 is not between 0 and 1152921504606846975"),
    ],
)
def test_an_invalid_request_is_named(amounts: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ResourcePacking(NAMES).pack_request(amounts)


@pytest.mark.parametrize(("bits", "limit"), [(NARROW_BITS, 67_108_864), (WIDE_BITS, 1_152_921_504_606_846_976)])
def test_amounts_are_below_a_limit(bits: int, limit: int) -> None:
    """Available amounts may also be negative, down to the negative limit."""
    packing = ResourcePacking(("gpu",), bits)
    for amount in (-limit, limit - 1):
        assert packing.unpack_available(packing.pack_available({"gpu": amount})) == {"gpu": amount}
    for amount in (-4 * limit, -limit - 1, limit, 4 * limit):
        with pytest.raises(ValueError, match=f"gpu: {amount} is not between -{limit} and {limit - 1}"):
            packing.pack_available({"gpu": amount})
    assert unpack_request(packing, packing.pack_request({"gpu": limit - 1}).amount) == {"gpu": limit - 1}
    for amount in (-1, limit, 4 * limit):
        with pytest.raises(ValueError, match=f"gpu: {amount} is not between 0 and {limit - 1}"):
            packing.pack_request({"gpu": amount})


def test_unknown_is_not_zero() -> None:
    """Every resource must have an amount."""
    with pytest.raises(ValueError, match="available: memory, gpu missing"):
        ResourcePacking(NAMES).pack_available({"cpu": 1})
