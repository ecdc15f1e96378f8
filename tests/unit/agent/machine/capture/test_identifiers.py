"""Identifiers and their stand-ins: every form is found, equal ones have equal stand-ins, and relations remain."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.capture.identifiers import Identifiers

MAC = "b8:ce:f6:12:34:56"
MELLANOX_GUID = "b8ce:f603:0012:3456"
EUI64 = "bace:f6ff:fe12:3456"
UUID = "6f1c2a4e-93bd-4c1b-8e55-0123456789ab"
CONTAINER = "4f1b" * 16


def replaced(*texts: str) -> list[str]:
    identifiers = Identifiers(texts)
    return [identifiers.replaced(text) for text in texts]


@pytest.mark.parametrize(
    ("text", "stands"),
    [
        (MAC, "02:00:00:00:00:01"),
        (MAC.upper(), "02:00:00:00:00:01"),
        ("9c63:c003:00f2:abcd", "0200:0000:0000:0001"),
        ("fe80:0000:0000:0000:9c63:c003:00f2:abcd", "fe80:0000:0000:0000:0200:0000:0000:0001"),
        ("2a02:1234:5678:9abc:9c63:c003:00f2:abcd", "2001:0db8:0000:0001:0200:0000:0000:0001"),
        ("0000:0000:0000:0000:0000:ffff:0a01:0203", "0000:0000:0000:0000:0000:ffff:c612:0001"),
        ("00:00:10:49:fe:80:00:00:00:00:00:00:9c:63:c0:03:00:f2:ab:cd",
         "00:00:00:00:fe:80:00:00:00:00:00:00:02:00:00:00:00:00:00:01"),
        (f"GPU-{UUID}", "GPU-00000000-0000-4000-8000-000000000001"),
        (f"kubepods-pod{UUID.replace('-', '_')}.slice", "kubepods-pod00000000_0000_4000_8000_000000000001.slice"),
        (f"cri-containerd-{CONTAINER}.scope", f"cri-containerd-{'0' * 63}1.scope"),
    ],
)  # fmt: skip
def test_every_form(text: str, stands: str) -> None:
    """MAC addresses, GUIDs, three kinds of GIDs, InfiniBand addresses, UUIDs and container ids are replaced."""
    assert replaced(text) == [stands]


@pytest.mark.parametrize(
    "text",
    [
        "00:00:00:00:00:00",
        "ff:ff:ff:ff:ff:ff",
        "0000:0000:0000:0000",
        "fe80:0000:0000:0000:0000:0000:0000:0000",
        "00000000-0000-0000-0000-000000000000",
        "0000:3b:00.0 0000:00:1f.3",
        "ffffffff,ffffffff,00000000,ffffffff",
        "0x0000000000000001 0x00000000ffffffff",
        "550.54.15 28.39.2048 400 Gb/sec (4X NDR)",
        "pci:v000010DEd00002330sv000010DEsd000016C1bc03sc02i00",
        "0-3,8-11",
    ],
)
def test_text_without_identifiers_is_unchanged(text: str) -> None:
    """Zeros and ones mean "none"; IP addresses, masks and versions are facts."""
    assert replaced(text, MAC)[0] == text


def test_equal_identifiers_have_one_stand_in() -> None:
    """Equal identifiers have one stand-in, in any case and at any position."""
    assert len(set(replaced(MAC, MAC.upper()))) == 1
    assert (
        replaced(f"a {UUID}", f"b {UUID.upper()}")[0][2:].upper() == replaced(f"a {UUID}", f"b {UUID}")[1][2:].upper()
    )


def test_stand_ins_sort_like_the_originals() -> None:
    """A list that was sorted by address remains sorted."""
    macs = ["b8:ce:f6:00:00:09", "04:3f:72:00:00:01", "b8:ce:f6:00:00:01"]
    stands = replaced(*macs)
    assert sorted(stands) == [stands[index] for index in (1, 2, 0)]


def test_derived_addresses_remain_derived() -> None:
    """A GUID that EUI-64 or Mellanox derives from a MAC address is derived from that address's stand-in."""
    mac, mellanox, eui64, gid = replaced(MAC, MELLANOX_GUID, EUI64, f"fe80:0000:0000:0000:{EUI64}")
    assert mac == "02:00:00:00:00:01"
    assert mellanox == "0200:0003:0000:0001"
    assert eui64 == "0000:00ff:fe00:0001"
    assert gid == f"fe80:0000:0000:0000:{eui64}"


def test_an_address_in_a_name() -> None:
    """Interfaces are named after their address, so the name changes with it."""
    assert replaced(MAC, "enxb8cef6123456")[1] == "enx020000000001"


def test_a_small_number_without_colons_is_not_an_address() -> None:
    """A port with GUID 1 does not cause every 16-digit number 1 to be replaced."""
    assert replaced("0000:0000:0000:0001", "0x0000000000000001")[1] == "0x0000000000000001"


def test_words() -> None:
    """Serial numbers and hostnames are replaced as whole words."""
    identifiers = Identifiers([], ["S4NTNA0R500123", "gpu-07"])
    assert identifiers.replaced("nvme S4NTNA0R500123 on gpu-07.example, not gpu-071") == (
        "nvme removed-1 on removed-2.example, not gpu-071"
    )


@pytest.mark.parametrize(
    "left",
    [MAC, "xb8cef6123456x", MELLANOX_GUID, EUI64.upper(), f"GPU-{UUID}", CONTAINER,
     "0000:0000:0000:0000:0000:ffff:0a01:0203", f"fe80:0000:0000:0000:{EUI64}", "serial-0815"],
)  # fmt: skip
def test_remaining_identifiers_are_reported(left: str) -> None:
    """The check finds an original in every form, and nothing after the replacement."""
    texts = [MAC, MELLANOX_GUID, EUI64, UUID, CONTAINER, "0000:0000:0000:0000:0000:ffff:0a01:0203"]
    identifiers = Identifiers(texts, ["serial-0815"])
    assert identifiers.left_in(f"before {left} behind") is not None
    assert identifiers.left_in(identifiers.replaced(f"before {left} behind")) is None


def colons(digits: int, group: int) -> st.SearchStrategy[str]:
    length = digits // group
    return st.lists(st.integers(0, 16**group - 1), min_size=length, max_size=length).map(
        lambda parts: ":".join(f"{part:0{group}x}" for part in parts)
    )


ADDRESSES = st.one_of(colons(12, 2), colons(16, 4), colons(32, 4), colons(40, 2), colons(16, 2), st.uuids().map(str))


@given(st.lists(ADDRESSES, max_size=8), st.lists(st.sampled_from([" ", "\n", "name=", "("]), min_size=8, max_size=8))
def test_nothing_is_left(addresses: list[str], between: list[str]) -> None:
    """No address remains in any text, the length of the text does not change, and equal addresses remain equal."""
    texts = [f"{before}{address};" for before, address in zip(between, addresses, strict=False)]
    identifiers = Identifiers(texts)
    stands = [identifiers.replaced(text) for text in texts]
    assert all(identifiers.left_in(stand) is None for stand in stands)
    assert [len(stand) for stand in stands] == [len(text) for text in texts]
    for original, stand in zip(addresses, stands, strict=True):
        for another, another_stand in zip(addresses, stands, strict=True):
            if original == another:
                assert re.sub(r"^[^0-9a-f]*|name=", "", stand)[-5:] == re.sub(r"^[^0-9a-f]*", "", another_stand)[-5:]
