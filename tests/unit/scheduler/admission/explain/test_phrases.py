"""Amounts and sets of zones as text."""

from __future__ import annotations

import pytest

from support.fit_nodes import GIB, GPU
from zonewise_scheduler.admission.explain.phrases import (
    amount,
    are_free,
    free_in_words,
    gib,
    in_cpus,
    listed,
    milli_amount,
    milli_count,
    zone_count,
    zones_in_words,
)


@pytest.mark.parametrize(
    ("free", "words"),
    [
        ({}, "no zone has any"),
        ({0: 4, 1: 2, 2: 1, 3: 0}, "zone 0 has 4 free, zone 1 has 2, zone 2 has 1, zone 3 has 0"),
        ({0: 4, 1: 2, 2: 1, 3: 0, 4: 5}, "none of the 5 zones has more than 5 free"),
    ],
)
def test_up_to_four_zones_are_listed(free: dict[int, int], words: str) -> None:
    assert free_in_words("cpu", free) == words


def test_amounts_in_words() -> None:
    """Sizes are in GiB: requests are rounded up, and free amounts are rounded down."""
    assert amount("".join(["c", "pu"]), 2) == "2 CPUs"
    assert [amount("cpu", 1), amount("cpu", 2), amount(GPU, 2)] == ["1 CPU", "2 CPUs", f"2 {GPU}"]
    assert [gib(GIB + 1), gib(GIB + 1, up=False), gib(GIB // 2)] == ["1.01 GiB", "1 GiB", "0.5 GiB"]
    assert gib(GIB + GIB // 128, up=False) == "1 GiB"
    assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
    assert [zones_in_words(2), zones_in_words(0b1011)] == ["zone 1", "zones 0, 1 and 3"]
    assert free_in_words("cpu", dict.fromkeys(range(8), 3)) == "none of the 8 zones has more than 3 free"
    assert free_in_words("cpu", {}) == "no zone has any"
    assert free_in_words("memory", {0: GIB + 1, 1: 0}) == "zone 0 has 1 GiB free, zone 1 has 0 GiB"
    assert amount("".join(["ephemeral", "-storage"]), GIB) == "1 GiB of ephemeral-storage"


def test_amounts_of_a_large_cluster_have_all_their_digits() -> None:
    """A thousand nodes of 2 TiB have more than a million GiB."""
    assert [gib(size * GIB) for size in (0, 10, 2_048_000)] == ["0 GiB", "10 GiB", "2048000 GiB"]
    assert gib(1_234_567 * GIB + GIB // 4) == "1234567.25 GiB"
    assert [in_cpus(size) for size in (0, 500, 10_000, 1_234_567_800)] == ["0", "0.5", "10", "1234567.8"]


def test_an_amount_without_a_unit_is_in_bytes() -> None:
    """A quota of 512 must not be shown as 0 GiB; `zonewise queue` also shows it as 512."""
    assert [gib(512), gib(512, up=False), gib(1), gib(0)] == ["512 bytes", "512 bytes", "1 byte", "0 GiB"]
    assert [gib(GIB // 100), gib(GIB // 100 + 1, up=False)] == ["10737418 bytes", "0.01 GiB"]


@pytest.mark.parametrize(
    ("number", "cpus", "free", "zones"),
    [
        (0, "0 CPUs", "0 are free", "0 zones"),
        (1, "1 CPU", "1 is free", "one zone"),
        (2, "2 CPUs", "2 are free", "2 zones"),
    ],
)
def test_one_is_singular(number: int, cpus: str, free: str, zones: str) -> None:
    assert (amount("cpu", number), are_free(number), zone_count(number)) == (cpus, free, zones)


def test_only_cpus_are_in_thousandths() -> None:
    shares = [("cpu", 500), ("cpu", 1000), ("memory", 2 << 30), ("amd.com/gpu", 4), ("nvidia.com/gpu", 8)]
    assert [milli_amount(*share) for share in shares] == [
        "0.5 CPUs", "1 CPUs", "2 GiB of memory", "4 amd.com/gpu", "8 nvidia.com/gpu",
    ]  # fmt: skip
    assert [milli_count(*share) for share in shares] == ["0.5", "1", "2 GiB", "4", "8"]
