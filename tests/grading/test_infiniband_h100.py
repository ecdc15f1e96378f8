"""Discovery graded against the RDMA devices of a real machine: eight NDR ports, and a bond of two Ethernet ports."""

from __future__ import annotations

import functools
import tarfile
from typing import TYPE_CHECKING

import pytest

from support.network import find
from support.snapshots import ABSENT, SNAPSHOTS

if TYPE_CHECKING:
    from support.network import NetworkScan, Tree

ARCHIVE = SNAPSHOTS / "gpud" / "sys-class-infiniband-h100.tar.xz"
HCAS = [f"mlx5_{number}" for number in (0, 1, 4, 5, 6, 7, 8, 9)]
BOND = "mlx5_bond_0"

pytestmark = pytest.mark.skipif(not ARCHIVE.exists(), reason=ABSENT)


@functools.cache
def capture() -> Tree:
    """Return the capture, which contains a single class, at its path in a machine."""
    with tarfile.open(ARCHIVE) as archive:
        files = {
            f"sys/class/infiniband/{member.name.split('/', 1)[1]}": content.read()
            for member in archive
            if (content := archive.extractfile(member)) is not None
        }
    return dict(files)


@functools.cache
def discovered() -> NetworkScan:
    return find(capture())


def test_every_device_is_listed() -> None:
    """There are eight HCAs, whose numbers have a gap, and the bond, each with one port."""
    assert list(discovered().rdma) == [*HCAS, BOND]
    assert {len(device.ports) for device in discovered().rdma.values()} == {1}
    assert {device.ports[0].number for device in discovered().rdma.values()} == {1}


@pytest.mark.parametrize("name", HCAS)
def test_an_hca(name: str) -> None:
    """Each HCA is a ConnectX-7 whose port runs at 400 Gb/s."""
    device = discovered().rdma[name]
    assert (device.hca_type, device.board, device.firmware) == ("MT4129", "MT_0000000838", "28.41.1000")
    port = device.ports[0]
    assert (port.state, port.physical_state, port.link_layer) == ("ACTIVE", "LinkUp", "InfiniBand")
    assert (port.rate, port.rate_gbps) == ("400 Gb/sec (4X NDR)", 400.0)


def test_the_bond() -> None:
    """The bond is a BlueField-3 with RoCE over two lanes."""
    device = discovered().rdma[BOND]
    assert (device.hca_type, device.board, device.firmware) == ("MT41692", "MT_0000000884", "32.38.3056")
    assert (device.ports[0].rate_gbps, device.ports[0].link_layer) == (200.0, "Ethernet")


def test_a_saturated_counter_has_the_value_of_the_hardware() -> None:
    """One port has lost its link more often than its 8-bit counter can count."""
    downed = {name: device.ports[0].counters["link_downed"] for name, device in discovered().rdma.items()}
    assert downed == {name: 255 if name == "mlx5_1" else 0 for name in [*HCAS, BOND]}


def test_every_counter_is_read() -> None:
    """Discovery finds exactly the counters of the capture, with their values."""
    expected: dict[str, int] = {}
    for path, content in capture().items():
        assert isinstance(content, bytes)
        directory, _, name = path.rpartition("/")
        if directory.endswith("counters") and name != "lifespan":
            expected[path] = int(content)
    ours = {
        f"sys/class/infiniband/{device.name}/ports/{port.number}/{kind}/{name}": count
        for device in discovered().rdma.values()
        for port in device.ports
        for kind, counters in (("counters", port.counters), ("hw_counters", port.hw_counters))
        for name, count in counters.items()
    }
    assert ours == expected
    assert len(expected) == 9 * (21 + 25)


def test_missing_facts_of_the_capture_are_reported() -> None:
    """The capture lacks GUIDs, LIDs and GIDs: each is unknown, and each device has two problems."""
    for device in discovered().rdma.values():
        assert (device.node_guid, device.address, device.zone) == (None, None, None)
        assert (device.ports[0].lid, device.ports[0].gids) == (None, ())
    assert len(discovered().problems) == 2 * 9
