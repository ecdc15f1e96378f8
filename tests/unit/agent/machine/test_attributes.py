"""The attributes of one device: only files that its directory lists are read, and losses are reported."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network import Failing
from zonewise.machine.attributes import Attributes
from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader

DEVICE = "sys/class/net/eth0"


def attributes(files: dict[str, bytes], errors: dict[str, int] | None = None) -> Attributes:
    """Return the attributes of a device with these files."""
    tree = {f"{DEVICE}/{name}": content for name, content in files.items()}
    failing = {f"{DEVICE}/{name}": number for name, number in (errors or {}).items()}
    return Attributes(Reader(Failing(MemoryFiles(tree.items()), failing), explain=True), DEVICE, "nics.eth0", "eth0")


def problems(device: Attributes) -> list[str]:
    return [f"{problem.path.removeprefix(f'/{DEVICE}')}: {problem.problem}" for problem in device.read.problems]


def test_unlisted_attributes_are_not_read() -> None:
    """An attribute that the directory does not list is unknown, without a problem."""
    device = attributes({"mtu": b"1500\n"}, {"speed": errno.EACCES})
    assert (device.text("operstate", "state"), device.integer("speed", "speed_mbps")) == (None, None)
    assert problems(device) == []


def test_missing_attributes_are_a_single_problem() -> None:
    """All missing attributes are listed together, in order, but no more than fit into a line."""
    device = attributes({"mtu": b"1500\n"})
    device.report_lacking(("mtu", "type", "address"))
    device.report_lacking([f"a{number}" for number in range(9)])
    device.report_lacking(("mtu",))
    assert problems(device) == [": lacks address, type", ": lacks a0, a1, a2, a3, a4, a5, a6, a7, ..."]


def test_facts_and_their_sources() -> None:
    """A fact is recorded below the device's own path, with the text and the rule; a part has a path below that."""
    device = attributes({"mtu": b"1500\n", "bonding/slaves": b"eth0 eth1\n"})
    assert device.integer("mtu", "mtu", rule="bytes") == 1500
    assert device.part("bonding", "ports").text("slaves", "names") == "eth0 eth1"
    sources = device.read.sources or {}
    assert (sources["nics.eth0.mtu"].value, sources["nics.eth0.mtu"].rule) == ("1500", "bytes")
    assert sources["nics.eth0.ports.names"].file == f"/{DEVICE}/bonding/slaves"


@given(st.integers(-(1 << 63), (1 << 64) - 1), st.integers(-5, 5), st.integers(6, 1 << 40))
def test_numbers_are_within_their_bounds(number: int, lowest: int, highest: int) -> None:
    """A number within the bounds is a fact; any other number is a problem and gives no fact."""
    device = attributes({"mtu": f"{number}\n".encode()})
    mtu = device.integer("mtu", "mtu", lowest=lowest, highest=highest)
    assert mtu == (number if lowest <= number <= highest else None)
    assert len(problems(device)) == (mtu is None)


@pytest.mark.parametrize(("needed", "count"), [(True, 1), (False, 0)])
def test_a_driver_may_have_no_value(needed: bool, count: int) -> None:
    """EINVAL means that the driver has no value; it is a problem only if every driver has one."""
    device = attributes({"speed": b""}, {"speed": errno.EINVAL})
    assert device.integer("speed", "speed_mbps", needed=needed) is None
    assert len(problems(device)) == count


@pytest.mark.parametrize("content", [b"", b"\n", b"(null)\n", b"N/A\n", b"x\n"])
@pytest.mark.parametrize("needed", [True, False])
def test_content_that_is_not_a_number_is_a_single_problem(content: bytes, needed: bool) -> None:
    """If the file can be read, its content must be a number, needed or not."""
    device = attributes({"speed": content})
    assert device.integer("speed", "speed_mbps", needed=needed) is None
    assert len(problems(device)) == 1


def test_content_that_means_no_number() -> None:
    """A text that a driver prints for "none" is a valid value."""
    device = attributes({"link_downed": b"N/A (no PMA)\n", "symbol_error": b"N\n"})
    for name in ("link_downed", "symbol_error"):
        assert device.integer(name, name, needed=False, no_number=lambda text: text.startswith(b"N/A")) is None
    assert problems(device) == ["/symbol_error: is not a number: 'N'"]


def test_an_unreadable_file_is_reported_once() -> None:
    """An error that is not a valid result is a problem; a second read of the file does not repeat it."""
    device = attributes({"speed": b"100\n"}, {"speed": errno.EACCES})
    assert device.integer("speed", "speed_mbps", needed=False) is None
    assert problems(device) == ["/speed: cannot be read: Permission denied"]
