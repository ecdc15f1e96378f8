"""RDMA devices: their identity, ports, GID tables and counters."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged
from support.network import (
    GUID,
    LINK_LOCAL,
    UNUSED,
    Tree,
    find,
    function_tree,
    gid_tree,
    lines,
    loopback,
    netdev,
    network_collectors,
    pci_function,
    place_of,
    port_tree,
    rdma_device,
    unused,
    with_pci,
)
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.network import Gid, Port

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

FIRST, SECOND = "0000:3b:00.0", "0000:3c:00.0"
OWNER = place_of(FIRST)
PORT = "sys/class/infiniband/mlx5_0/ports/1"
PORT_PATH = f"{OWNER}/infiniband/mlx5_0/ports/1"


def hca_tree(**port: object) -> Tree:
    """Return a tree with one HCA, mlx5_0, with one port."""
    return loopback() | function_tree(FIRST) | rdma_device("mlx5_0", OWNER) | port_tree("mlx5_0", OWNER, 1, **port)


def known() -> Machine:
    """Return a machine with the PCI function of the HCA."""
    return with_pci(pci_function(FIRST, pci_class="0207"))


def hca_port(tree: Tree, errors: dict[str, int] | None = None) -> tuple[Port, list[str]]:
    """Return the only port of the HCA, and the problems."""
    discovered = find(tree, known(), errors)
    return discovered.rdma["mlx5_0"].ports[0], discovered.problems


# --- the device


def test_facts_of_an_hca() -> None:
    """Every fact of a plain InfiniBand HCA is read, without a problem."""
    discovered = find(hca_tree(), known())
    device = discovered.rdma["mlx5_0"]
    assert (device.address, device.zone) == (FIRST, 1)
    assert (device.node_guid, device.sys_image_guid, device.node_type) == (GUID, GUID, "CA")
    assert (device.firmware, device.board, device.hca_type) == ("28.41.1000", "MT_0000000838", "MT4129")
    port = device.ports[0]
    assert (port.number, port.state, port.physical_state, port.link_layer) == (1, "ACTIVE", "LinkUp", "InfiniBand")
    assert (port.rate, port.rate_gbps, port.lid, port.sm_lid) == ("400 Gb/sec (4X NDR)", 400.0, 31, 1)
    assert port.gids == (Gid(0, LINK_LOCAL, None, None),)
    assert discovered.problems == []


def test_every_fact_of_an_hca_has_a_source() -> None:
    """A fact that is read names its file, its text and the rule."""
    sources = find(hca_tree(**{"counters/link_downed": 3}), known()).scan.sources
    fact = "infiniband.mlx5_0.ports.0"
    assert sources[f"{fact}.state"].value == "4: ACTIVE"
    assert sources[f"{fact}.lid"].file == f"/{PORT}/lid"
    assert sources[f"{fact}.counters.link_downed"].file == f"/{PORT}/counters/link_downed"
    assert {f"{fact}.gids", f"{fact}.rate_gbps", fact, "infiniband.mlx5_0.zone"} <= set(sources)


def test_an_efa_device_lacks_attributes_of_its_driver() -> None:
    """EFA has neither hca_type nor board_id, and an unspecified link layer; this is not a problem."""
    tree = loopback() | function_tree(FIRST, "efa")
    tree |= rdma_device("rdmap0s31", OWNER, hca_type=None, board_id=None, fw_ver=None)
    tree |= port_tree("rdmap0s31", OWNER, link_layer="Unspecified", lid="0x0", rate="200 Gb/sec (4X HDR)")
    discovered = find(tree, with_pci(pci_function(FIRST, driver="efa")))
    device = discovered.rdma["rdmap0s31"]
    assert (device.hca_type, device.board, device.firmware) == (None, None, None)
    assert device.ports[0].link_layer is None
    assert (discovered.nics[FIRST].rdma, discovered.nics[FIRST].presence) == ("rdmap0s31", "no netdev")
    assert discovered.problems == []


def test_a_software_device_has_no_function() -> None:
    """A soft RoCE device has no PCI function and no zone, and names its own netdev."""
    tree = rdma_device("rxe0", hca_type=None, board_id=None, sys_image_guid=None, parent="eth0")
    tree |= port_tree("rxe0", link_layer="Ethernet", rate="2.5 Gb/sec (1X SDR)") | netdev("eth0")
    discovered = find(tree)
    assert (discovered.rdma["rxe0"].address, discovered.rdma["rxe0"].zone) == (None, None)
    assert discovered.rdma["rxe0"].netdevs == ("eth0",)
    assert discovered.problems == []


@pytest.mark.parametrize(
    ("files", "software"),
    [
        ({"parent": "eth0"}, True),
        ({"node_desc": "rxe"}, True),
        ({"node_desc": "Software iWARP stack"}, True),
        ({"node_desc": "node-7 mlx5_0"}, False),
        ({}, False),
        # hardware has a type, so the description, which an administrator can write, is irrelevant
        ({"node_desc": "rxe", "hca_type": "MT4129"}, False),
    ],
)
def test_software_devices(files: dict[str, str], software: bool) -> None:
    """Kernels before 5.11 also list them on a PCI function."""
    plain = {"hca_type": None, "board_id": None, "sys_image_guid": None}
    tree = function_tree(FIRST) | rdma_device("any", OWNER, **{**plain, **files}) | port_tree("any", OWNER)
    assert find(loopback() | tree, known()).rdma["any"].software == software


def test_virtual_devices_are_software() -> None:
    tree = rdma_device("siw0", hca_type=None, board_id=None, node_type="4: RNIC") | port_tree("siw0")
    assert find(tree).rdma["siw0"].software


def test_an_omni_path_device_without_own_facts() -> None:
    """In a capture reduced to what one tool reads, one line per directory names the missing files."""
    tree = lines("sys/class/infiniband/hfi1_0", {"board_id": "Omni-Path Adapter", "ports/1/state": "4: ACTIVE"})
    discovered = find(tree)
    assert discovered.rdma["hfi1_0"].board == "Omni-Path Adapter"
    assert discovered.rdma["hfi1_0"].ports[0].rate_gbps is None
    assert discovered.problems == [
        "/sys/class/infiniband/hfi1_0/ports/1: lacks lid, phys_state, rate, sm_lid",
        "/sys/class/infiniband/hfi1_0: lacks node_guid, node_type",
    ]


@pytest.mark.parametrize("guid", ["0000:0000:0000:0000"])
def test_a_zero_guid_is_unknown(guid: str) -> None:
    """A GUID that was never set is unknown, not zero."""
    tree = hca_tree() | lines(f"{OWNER}/infiniband/mlx5_0", {"node_guid": guid})
    discovered = find(tree, known())
    assert discovered.rdma["mlx5_0"].node_guid is None
    assert discovered.problems == []


@pytest.mark.parametrize("text", ["a088", "a088:c203:0056:8a4", "A088:C203:0056:8A44", "gggg:0000:0000:0001"])
def test_an_invalid_guid_is_a_problem(text: str) -> None:
    """Only the kernel's format is a GUID; a truncated one is not."""
    discovered = find(hca_tree() | lines(f"{OWNER}/infiniband/mlx5_0", {"node_guid": text}), known())
    assert discovered.rdma["mlx5_0"].node_guid is None
    assert len(discovered.problems) == 1


def test_a_file_that_an_equal_device_has_is_reported() -> None:
    """Devices with the same PCI ids have the same files. A file that only one lacks was lost."""
    second = place_of(SECOND)
    tree = hca_tree() | function_tree(SECOND) | rdma_device("mlx5_1", second, board_id=None)
    tree |= port_tree("mlx5_1", second, **{"counters/link_downed": 0, "hw_counters/out_of_sequence": 1})
    functions = (pci_function(address, pci_class="0207") for address in (FIRST, SECOND))
    assert find(tree, with_pci(*functions)).problems == [
        "/sys/class/infiniband/mlx5_0/ports/1/counters: lacks link_downed",
        "/sys/class/infiniband/mlx5_0/ports/1/hw_counters: lacks out_of_sequence",
        "/sys/class/infiniband/mlx5_1: lacks board_id",
    ]


def test_an_unequal_device_is_not_compared() -> None:
    """A card of another model, or the same card in Ethernet mode, has other counters."""
    second = place_of(SECOND)
    tree = hca_tree() | function_tree(SECOND) | rdma_device("mlx5_1", second)
    tree |= port_tree("mlx5_1", second, **{"hw_counters/roce_slow_restart": 0})
    assert find(tree, with_pci(pci_function(FIRST, pci_class="0207"), pci_function(SECOND))).problems == []


def test_a_device_listed_by_its_function_only() -> None:
    """A missing class entry is reported, and the device is found through its PCI function."""
    tree = hca_tree()
    del tree["sys/class/infiniband/mlx5_0"]
    for broken in ({}, {"sys/class/infiniband/mlx5_0": "../../devices/nowhere"}):
        discovered = find(tree | broken, known())
        assert (discovered.rdma["mlx5_0"].address, discovered.rdma["mlx5_0"].ports[0].state) == (FIRST, "ACTIVE")
        assert discovered.problems == [
            "/sys/class/infiniband/mlx5_0: leads to no device, although one of that name exists"
        ]


def test_an_entry_that_leads_nowhere_keeps_its_name() -> None:
    """The class lists it, so it exists; nothing else is known about it."""
    discovered = find({"sys/class/infiniband/scif0": "../../devices/scif_dma_0/infiniband/scif0"})
    assert discovered.rdma["scif0"].ports == ()
    assert discovered.problems == ["/sys/class/infiniband/scif0: is a broken link"]


# --- ports


def test_two_ports() -> None:
    """A device with two ports has both, in order."""
    tree = hca_tree() | port_tree("mlx5_0", OWNER, 2, state="1: DOWN", phys_state="3: Disabled", lid="0x0")
    ports = find(tree, known()).rdma["mlx5_0"].ports
    assert [(port.number, port.state, port.physical_state, port.lid) for port in ports] == [
        (1, "ACTIVE", "LinkUp", 31),
        (2, "DOWN", "Disabled", 0),
    ]


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("400 Gb/sec (4X NDR)", 400.0),
        ("200 Gb/sec (2X NDR)", 200.0),
        ("2.5 Gb/sec (1X SDR)", 2.5),
        ("10 Gb/sec (4X)", 10.0),
        ("100 Gb/sec", 100.0),
    ],
)
def test_rates(text: str, rate: float) -> None:
    """The rate is the current one, with fewer lanes than possible if the link is degraded."""
    port, problems = hca_port(hca_tree(rate=text))
    assert (port.rate, port.rate_gbps, problems) == (text, rate, [])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rate", "fast"),
        ("rate", "999999999999 Gb/sec (4X NDR)"),
        ("state", "4 ACTIVE"),
        ("state", "ACTIVE"),
        ("state", "4: "),
        ("phys_state", "-1: LinkUp"),
        ("link_layer", "Token Ring"),
        ("lid", "31"),
        ("lid", "0x1ffffffff"),
        ("sm_lid", "0xzz"),
        ("gids/0", "fe80::1"),
    ],
)
def test_invalid_text_is_a_problem(name: str, text: str) -> None:
    """Garbled text gives no fact and one problem. A LID is hexadecimal, with or without a leading 0x."""
    port, problems = hca_port(hca_tree(**{name: text}))
    if text == "31":
        assert (port.lid, problems) == (0x31, [])
        return
    lost = (port.rate, port.rate_gbps, port.state, port.physical_state, port.link_layer, port.lid, port.sm_lid)
    assert None in lost or port.gids == ()
    assert len(problems) == 1


def test_a_physical_state_that_the_kernel_does_not_know() -> None:
    """The kernel's word for it is not a state, and no damage."""
    port, problems = hca_port(hca_tree(phys_state="0: <unknown>"))
    assert (port.physical_state, problems) == (None, [])


def test_names_that_are_not_ports() -> None:
    """Only numbers within bounds name ports; other names are reported."""
    tree: Tree = hca_tree() | {
        f"{OWNER}/infiniband/mlx5_0/ports/{name}/state": b"4: ACTIVE\n" for name in ("x", "9" * 40)
    }
    discovered = find(tree, known())
    assert [port.number for port in discovered.rdma["mlx5_0"].ports] == [1]
    assert discovered.problems == ["/sys/class/infiniband/mlx5_0/ports: contains entries other than numbered ports"]


def test_a_device_that_lost_its_ports() -> None:
    """A device has at least one port."""
    tree = function_tree(FIRST) | rdma_device("mlx5_0", OWNER)
    discovered = find(tree, known())
    assert discovered.rdma["mlx5_0"].ports == ()
    assert len(discovered.problems) == 1


# --- GIDs


ROCE = {0: ("fe80:0000:0000:0000:966d:aeff:fe00:0001", "IB/RoCE v1", "eth0"), 1: (LINK_LOCAL, "RoCE v2", "eth0")}


def roce_tree(entries: dict[int, tuple[str, str, str]], free: range) -> tuple[Tree, dict[str, int]]:
    """Return a RoCE HCA with these GIDs, followed by free entries; and the errors of reading the free ones."""
    empty, _ = unused(PORT_PATH, free)
    _, errors = unused(PORT, free)
    tree = hca_tree(link_layer="Ethernet", lid="0x0", **{"gids/0": None}) | gid_tree(PORT_PATH, entries) | empty
    return tree, errors


def test_gids_of_a_roce_port() -> None:
    """Each used entry has its index, type and netdev; unused entries (EINVAL) are omitted without a problem."""
    tree, errors = roce_tree({**ROCE, 4: (UNUSED[:-4] + "0001", "RoCE v2", "eth0.5")}, range(2, 4))
    port, problems = hca_port(tree, errors)
    assert [(gid.number, gid.type, gid.netdev) for gid in port.gids] == [
        (0, "IB/RoCE v1", "eth0"),
        (1, "RoCE v2", "eth0"),
        (4, "RoCE v2", "eth0.5"),
    ]
    assert problems == []


def test_gids_of_zero_are_unused() -> None:
    """Old kernels print unused entries as zero or as only the subnet prefix."""
    port, problems = hca_port(hca_tree(**{"gids/1": UNUSED, "gids/2": LINK_LOCAL[:20] + UNUSED[20:]}))
    assert [gid.number for gid in port.gids] == [0]
    assert problems == []


def test_a_copy_holds_empty_files_where_entries_are_unused() -> None:
    """An empty file is an unused entry if its type is empty as well; otherwise, the GID was lost."""
    tree, _ = roce_tree(ROCE, range(2, 9))
    assert hca_port(tree)[1] == []
    port, problems = hca_port(tree | {f"{PORT_PATH}/gids/1": b""})
    assert [gid.number for gid in port.gids] == [0]
    assert problems == [f"/{PORT}/gids/1: is not a GID: ''"]
    assert hca_port(hca_tree() | {f"{PORT_PATH}/gids/0": b""})[1] == [f"/{PORT}/gids/0: is not a GID: ''"]


def test_a_gap_in_the_table_is_a_problem() -> None:
    """The kernel has a file for every entry, used or not."""
    port, problems = hca_port(hca_tree(**{"gids/2": LINK_LOCAL}))
    assert [gid.number for gid in port.gids] == [0, 2]
    assert len(problems) == 1


def test_a_lost_type_is_a_problem() -> None:
    """A used entry has a type and a netdev; a missing file is reported."""
    tree, errors = roce_tree(ROCE, range(2, 4))
    del tree[f"{PORT_PATH}/gid_attrs/types/1"], tree[f"{PORT_PATH}/gid_attrs/ndevs/0"]
    port, problems = hca_port(tree, errors)
    assert [(gid.type, gid.netdev) for gid in port.gids] == [("IB/RoCE v1", None), (None, "eth0")]
    assert problems == [
        f"/{PORT}/gid_attrs/ndevs/0: is absent",
        f"/{PORT}/gid_attrs/types/1: No such file or directory: type of a GID is unknown",
    ]


def test_a_netdev_that_is_down_has_no_name_in_the_table() -> None:
    """Reading the netdev of an entry may fail with ENODEV, which is a valid result."""
    tree, errors = roce_tree(ROCE, range(2, 4))
    port, problems = hca_port(tree, errors | {f"{PORT}/gid_attrs/ndevs/1": errno.ENODEV})
    assert [gid.netdev for gid in port.gids] == ["eth0", None]
    assert problems == []


def test_a_long_table_is_not_read_to_its_end() -> None:
    """After 64 unused entries in a row, the rest is not read: software devices have tables of 1024 entries."""
    tree, errors = roce_tree(ROCE, range(2, 1024))
    reads: list[str] = []

    class Counting(MemoryFiles):
        def read(self, path: str) -> bytes:
            reads.append(path)
            if number := errors.get(path):
                raise OSError(number, "unused", path)
            return super().read(path)

    scan = Scanner(Counting(tree.items()), collectors=network_collectors(known())).scan()
    assert [gid.number for gid in scan.machine.infiniband[0].ports[0].gids] == [0, 1]
    assert len([path for path in reads if "/gids/" in path]) == 2 + 64
    assert len([path for path in reads if "/gid_attrs/" in path]) == 4
    assert scan.machine.problems == ()


@given(st.sets(st.integers(0, 63), min_size=1))
def test_short_gaps_hide_no_used_entry(indexes: set[int]) -> None:
    """If fewer than 64 unused entries are in a row, every used entry is found, in order."""
    entries = {number: (f"{LINK_LOCAL[:-4]}{number + 1:04x}", "RoCE v2", "eth0") for number in indexes}
    tree, errors = roce_tree(entries, range(0))
    for number in set(range(64)) - indexes:
        empty, _ = unused(PORT_PATH, range(number, number + 1))
        tree |= empty
        errors |= unused(PORT, range(number, number + 1))[1]
    port, problems = hca_port(tree, errors)
    assert [gid.number for gid in port.gids] == sorted(indexes)
    assert problems == []


# --- counters


def test_counters() -> None:
    """Counters have their kernel names. lifespan is not a counter; old kernels' 64-bit counters are included."""
    tree = hca_tree(
        **{
            "counters/port_xmit_data": 1 << 40,
            "counters/link_downed": 255,
            "counters_ext/port_xmit_data_64": 1 << 41,
            "hw_counters/out_of_sequence": 3,
            "hw_counters/lifespan": 10,
        }
    )
    port, problems = hca_port(tree)
    assert port.counters == {"port_xmit_data": 1 << 40, "link_downed": 255, "port_xmit_data_64": 1 << 41}
    assert port.hw_counters == {"out_of_sequence": 3}
    assert problems == []


def test_counters_that_the_hardware_lacks_are_absent() -> None:
    """Without performance management, a counter prints "N/A (no PMA)" or fails: absent, never 0, and no problem."""
    tree = hca_tree(
        **{"counters/link_downed": "N/A (no PMA)", "counters/symbol_error": 7, "counters/port_xmit_wait": 1}
    )
    port, problems = hca_port(tree, {f"{PORT}/counters/port_xmit_wait": errno.EINVAL})
    assert port.counters == {"symbol_error": 7}
    assert problems == []


@pytest.mark.parametrize("content", [b"", b"\n", b"(null)\n", b"-5\n", b"many\n", b"9" * 30 + b"\n", b"\xff\xfe\n"])
def test_a_counter_that_is_no_number_is_a_problem(content: bytes) -> None:
    """A damaged counter is absent and reported."""
    port, problems = hca_port(hca_tree() | {f"{PORT_PATH}/counters/link_downed": content})
    assert port.counters == {}
    assert len(problems) == 1


@given(st.dictionaries(st.from_regex(r"[a-z_]{1,12}", fullmatch=True), st.integers(0, (1 << 64) - 1), max_size=5))
def test_counters_are_unchanged(counters: dict[str, int]) -> None:
    """Every counter of up to 64 bits is returned unchanged."""
    counters.pop("lifespan", None)
    port, problems = hca_port(hca_tree() | lines(f"{PORT_PATH}/counters", counters))
    assert (port.counters, problems) == (counters, [])


# --- rescans and damage


@pytest.mark.parametrize(
    ("name", "again"), [("state", True), ("phys_state", True), ("rate", True), ("lid", True), ("counters/a", False)]
)
def test_a_rescan_notices_a_port(name: str, again: bool) -> None:
    """A changed state, rate or LID of a port causes a rescan; an increasing counter does not."""
    damages: dict[str, Damage] = {}
    files = Damaged(MemoryFiles(hca_tree(**{"counters/a": 1}).items()), damages)
    scanner = Scanner(files, collectors=network_collectors(known()))
    scanner.scan()
    assert scanner.scan().runs[2].outcome == "unchanged"
    damages[f"{PORT}/{name}"] = Damage("content", 0, b"1: DOWN\n")
    assert (scanner.scan().runs[2].outcome == "collected") == again


PATHS = [
    *(f"{PORT}/{name}" for name in ("state", "phys_state", "rate", "lid", "sm_lid", "link_layer", "gids", "gids/0")),
    *(f"{PORT}/{name}" for name in ("gids/1", "gid_attrs/types/0", "gid_attrs/ndevs", "counters", "counters/a", "")),
    *(f"sys/class/infiniband/mlx5_0/{name}" for name in ("node_guid", "fw_ver", "node_type", "ports", "hca_type")),
    "sys/class/infiniband",
    "sys/class/infiniband/mlx5_0",
    PORT,
]


@given(st.dictionaries(st.sampled_from(PATHS), DAMAGES, max_size=5))
def test_no_damage_stops_or_invents(damages: dict[str, Damage]) -> None:
    """Whatever happened to the files: no exception, no device or port is invented, and numbers are within bounds."""
    tree, _ = roce_tree(ROCE, range(2, 4))
    files = Damaged(MemoryFiles((tree | lines(f"{PORT_PATH}/counters", {"a": 1})).items()), damages)
    scan = Scanner(files, collectors=network_collectors(known())).scan()
    assert [run.detail for run in scan.runs if run.outcome == "failed"] == []
    assert [device.name for device in scan.machine.infiniband] in ([], ["mlx5_0"])
    for port in (port for device in scan.machine.infiniband for port in device.ports):
        assert port.number == 1
        assert port.lid is None or 0 <= port.lid < 1 << 32
        assert all(0 <= count < 1 << 64 for count in port.counters.values())
        assert port.rate_gbps is None or 0 < port.rate_gbps < 1e6
