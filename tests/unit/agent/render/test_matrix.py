"""The matrix of how close devices are."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_machines import any_machines
from support.machine_parts import Slot, cpus, function, with_links
from support.machines import ALL, gpu_server, grace_blackwell, hybrid, small_vm
from zonewise.machine.model.host import Accelerator
from zonewise.machine.model.machine import Machine
from zonewise.render.canvas import column_width
from zonewise.render.matrix import render_matrix

HYBRID = """\
           GPU0  wlp0s20f3  nvme0  Zone  CPUs
GPU0       X     PHB        PHB    0     0-15
wlp0s20f3  PHB   X          PHB    0     0-15
nvme0      PHB   PHB        X      0     0-15

GPU0       0000:00:02.0  Iris Xe Graphics
wlp0s20f3  0000:00:14.3  Ethernet
nvme0      0000:04:00.0  nvme0n1 NVMe 954 GiB

X     the device itself
PHB   below one host bridge"""


def read(text: str) -> dict[tuple[str, str], str]:
    """Return the cells of a matrix, parsed from all its blocks of columns."""
    cells: dict[tuple[str, str], str] = {}
    for block in text.split("\n\n"):
        head, *rows = block.split("\n")
        if not head.startswith(" "):
            continue
        for row in rows:
            name, *values = row.split()
            cells.update({(name, column): value for column, value in zip(head.split(), values, strict=False)})
    return cells


def many_drives(count: int, roots: int) -> Machine:
    """Return a machine with one zone and equal drives below several host bridges."""
    machine = small_vm()
    drive = machine.block_devices[0]
    addresses = [f"{i % roots:04x}:{1 + i // roots:02x}:00.0" for i in range(count)]
    with_drives = machine._replace(
        pci=tuple(function(one, "0108", ("144d", "a80a"), Slot(f"pci{one[:4]}:00", (), 0)) for one in addresses),
        block_devices=tuple(drive._replace(name=f"nvme{i}n1", address=address) for i, address in enumerate(addresses)),
        nics=(),
    )
    return with_links(with_drives)


def test_the_look() -> None:
    """The matrix has names, cells, affinity and a legend."""
    assert render_matrix(hybrid(), 80) == HYBRID


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_every_cell_is_the_relation_of_its_devices(width: int) -> None:
    """However the columns are split, the cells are the machine's links and symmetric."""
    machine = gpu_server()
    names = {gpu.address: f"GPU{gpu.number}" for gpu in machine.gpus}
    names |= {hca.address: hca.name for hca in machine.infiniband}
    names |= {drive.address: drive.name.removesuffix("n1") for drive in machine.block_devices}
    relations = {frozenset((link.a, link.b)): link.relation for link in machine.links}
    cells = read(render_matrix(machine, width))
    for a, b in combinations(names, 2):
        expected = relations[frozenset((str(a), str(b)))]
        assert cells[names[a], names[b]] == cells[names[b], names[a]] == expected
    assert all(cells[name, name] == "X" for name in names.values())


def test_functions_of_one_device_share_a_row() -> None:
    """Both ports of the Ethernet card and its virtual functions are one row; the legend names both ports."""
    shown = render_matrix(gpu_server(), 200)
    assert "eno2np1 " not in "".join(line[:8] for line in shown.split("\n"))
    assert "eno1np0  0000:02:00.0 0000:02:00.1  Ethernet 25 Gb/s, eno2np1 Ethernet" in shown
    assert "0000:02:02" not in shown


def test_each_device_shows_its_zone_and_cpus() -> None:
    """The CPUs are the kernel's local CPUs, else those of the zone; an unknown set is a question mark."""
    machine = grace_blackwell()
    first = machine.gpus[0].address
    pci = tuple(entry._replace(cpus=cpus("5")) if entry.address == first else entry for entry in machine.pci)
    removed = machine.gpus[1].address
    pci = tuple(entry._replace(zone=None) if entry.address == removed else entry for entry in pci)
    gpus = tuple(entry._replace(zone=None) if entry.address == removed else entry for entry in machine.gpus)
    rows = render_matrix(machine._replace(pci=pci, gpus=gpus), 120).split("\n")
    assert rows[1].split()[-2:] == ["0", "5"]
    assert rows[2].split()[-2:] == ["?", "?"]
    assert rows[3].split()[-2:] == ["1", "72-143"]


def test_unknown_relations_are_question_marks() -> None:
    """Relations that the machine lists as unknown and relations that it lacks are both question marks."""
    machine = hybrid()
    unknown = machine._replace(links=tuple(link._replace(relation=None) for link in machine.links))
    for candidate in (unknown, machine._replace(links=())):
        assert read(render_matrix(candidate, 80))["GPU0", "nvme0"] == "?"
        assert "not known" in render_matrix(candidate, 80)


def test_only_relations_that_occur_are_explained() -> None:
    """The legend does not explain relations that do not occur."""
    assert "NVLink" in render_matrix(gpu_server(), 120)
    assert "NVLink" not in render_matrix(hybrid(), 120)
    assert "several PCIe switches" not in render_matrix(gpu_server(), 120)


def test_no_devices_no_matrix() -> None:
    """A machine without devices has a sentence instead."""
    assert render_matrix(Machine(), 40) == "No devices with a PCI address."


def test_up_to_forty_devices_have_a_row_each() -> None:
    """Up to the limit, nothing is folded."""
    cells = read(render_matrix(many_drives(40, 4), 200))
    assert len({row for row, _ in cells}) == 40


def test_more_devices_are_folded_by_equal_relations() -> None:
    """48 drives below 4 host bridges are 4 rows; the diagonal has the relation between the drives of a row."""
    shown = render_matrix(many_drives(48, 4), 120)
    cells = read(shown)
    assert len({row for row, _ in cells}) == 4
    assert {cells[row, column] for row, column in cells if row == column} == {"PHB"}
    assert "12 devices, the first: nvme0n1" in shown


def test_folding_never_merges_different_devices() -> None:
    """If one drive is closer to another than the rest, both are excluded from the fold."""
    machine = many_drives(48, 4)
    first, second = machine.block_devices[0].address, machine.block_devices[4].address
    links = tuple(
        link._replace(relation="PIX") if {link.a, link.b} == {first, second} else link for link in machine.links
    )
    cells = read(render_matrix(machine._replace(links=links), 200))
    assert len({row for row, _ in cells}) == 5
    assert cells["nvme0,..,nvme4", "nvme0,..,nvme4"] == "PIX"


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [40, 57, 80, 200])
def test_no_line_is_too_long(name: str, width: int) -> None:
    """Columns that do not fit are in another block, and long names are clipped."""
    assert all(column_width(line) <= width for line in render_matrix(ALL[name](), width).split("\n"))


@pytest.mark.parametrize("everything", [True, False])
@settings(max_examples=40, deadline=None)
@given(machine=any_machines(), width=st.integers(40, 200))
def test_no_line_of_any_machine_is_too_long(everything: bool, machine: Machine, width: int) -> None:
    """Names of devices may have any length."""
    lines = render_matrix(machine, width, everything=everything).split("\n")
    assert all(column_width(line) <= width for line in lines)


# --- the default: GPUs, accelerators and network ports


def test_gpus_against_gpus_and_network_ports() -> None:
    """Drives and the list of devices are omitted, since the picture has them; the cells match the full matrix."""
    machine = gpu_server()
    cells = read(render_matrix(machine, 200, everything=False))
    whole = read(render_matrix(machine, 200))
    gpus = [f"GPU{i}" for i in range(8)]
    assert {row for row, _ in cells} == set(gpus)
    columns = {column for _, column in cells} - {"Zone", "CPUs"}
    assert columns > set(gpus)
    assert not any(column.startswith("nvme") for column in columns)
    assert all(whole[pair] == cell for pair, cell in cells.items())
    assert str(machine.gpus[0].address) not in render_matrix(machine, 200, everything=False)


def test_network_ports_without_gpus() -> None:
    """They are compared with each other; a single port has no matrix."""
    machine = gpu_server()._replace(gpus=(), accelerators=())
    names = {row for row, _ in read(render_matrix(machine, 200, everything=False))}
    assert names == {column for _, column in read(render_matrix(machine, 200, everything=False))} - {"Zone", "CPUs"}
    assert "mlx5_0" in names
    assert render_matrix(many_drives(8, 2), 80, everything=False) == ""
    assert render_matrix(Machine(), 80, everything=False) == ""


def test_a_dma_engine_is_not_an_accelerator() -> None:
    machine = small_vm()
    address = "0000:00:1e.0"
    engines = (*machine.pci, function(address, "0880", ("8086", "0b25"), Slot("pci0000:00", (), 0)))
    machine = with_links(machine._replace(pci=engines))
    device = Accelerator("dsa0", address, 0, "dma", "8086", "0b25", "idxd")
    for changed, shown in (
        (machine._replace(accelerators=(device._replace(kind="crypto"),)), True),
        (machine._replace(dma_engines=(device,)), False),
    ):
        assert ("dsa0" in {row for row, _ in read(render_matrix(changed, 200))}) == shown
