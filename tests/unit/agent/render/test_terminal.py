"""The picture on a terminal."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.any_machines import any_machines
from support.machines import ALL, big_machine, gpu_server, grace_blackwell, hybrid, small_vm
from zonewise.machine.model.machine import Machine
from zonewise.render.canvas import column_width
from zonewise.render.terminal import NARROWEST, render_terminal

CODES = re.compile(r"\x1b\[[0-9;]*m")

SMALL_VM = """\
QEMU Standard PC (Q35 + ICH9, 2009) · vm-1
x86_64 · Linux 6.1.0-28-cloud-amd64 · KVM guest
4 CPUs · 2 cores · 1 package · 1 zone · 15.6 GiB memory

┌─ Package 0 · Zone 0 · 15.6 GiB · Intel Xeon Platinum 8273CL ─────────┐
│ L3 39 MiB                                                            │
│ 2 cores × 2 threads  CPUs 0-3  L1d 32 KiB, L1i 32 KiB, L2 1 MiB each │
│ PCI 0000:00                                                          │
│ ├ ens3  Ethernet 10 Gb/s  00:03.0                                    │
│ └ vda   virtio 50 GiB     00:04.0                                    │
└──────────────────────────────────────────────────────────────────────┘"""

SMALL_VM_NARROW_ASCII = """\
QEMU Standard PC (Q35 + ICH9, 2009)
  vm-1
x86_64 - Linux 6.1.0-28-cloud-amd64
  KVM guest
4 CPUs - 2 cores - 1 package - 1 zone
  15.6 GiB memory

+- Package 0 - Zone 0 - 15.6 GiB - I~ -+
| L3 39 MiB                            |
| 2 cores x 2 threads  CPUs 0-3        |
|   L1d 32 KiB, L1i 32 KiB,            |
|   L2 1 MiB each                      |
| PCI 0000:00                          |
| + ens3  Ethernet 10 Gb/s  00:03.0    |
| + vda   virtio 50 GiB     00:04.0    |
+--------------------------------------+"""

GPU_ZONE = """\
│ │ 28 cores × 2 threads  CPUs 28-55,140-167            │ │
│ │   L1d 48 KiB, L1i 32 KiB, L2 2 MiB each             │ │
│ │ PCI 0000:37 · switch 38:00.0                        │ │
│ │ ├ GPU2        NVIDIA H100 80GB HBM3  Gen5 x16       │ │
│ │ ├ mlx5_2/ib2  InfiniBand 400 Gb/s    Gen5 x16       │ │
│ │ └ nvme2n1     NVMe 3.49 TiB          Gen4 x4        │ │"""


def lines(machine: Machine, width: int, *, unicode: bool = True) -> list[str]:
    """Return the lines of the picture without colours."""
    return render_terminal(machine, width, colour=False, unicode=unicode).split("\n")


# --- the look, so that its changes are deliberate


@pytest.mark.parametrize("width", [72, 80, 200])
def test_the_look_of_a_small_machine(width: int) -> None:
    """The picture has exactly the width that it needs."""
    assert render_terminal(small_vm(), width, colour=False) == SMALL_VM


def test_the_look_in_ascii_at_the_narrowest() -> None:
    """All data is still present, in more lines; a clipped title ends with a mark."""
    assert render_terminal(small_vm(), NARROWEST, colour=False, unicode=False) == SMALL_VM_NARROW_ASCII


def test_the_look_of_a_gpu_server() -> None:
    """At 120 columns, the packages are side by side, and every switch has its devices below it."""
    shown = lines(gpu_server(), 120)
    assert any(line.count("╭─ Package") == 2 for line in shown)
    left = "\n".join(line[:59] for line in shown)
    assert GPU_ZONE in left


def test_the_look_of_big_and_mixed_machines() -> None:
    """Equal cores are one phrase, P-cores and E-cores are separate, and GPU memory names its GPU."""
    assert any("2 × L3 32 MiB  8 cores × 2 threads each" in line for line in lines(big_machine(), 120))
    assert "│   CPUs 0-7,128-135 | 8-15,136-143" in "\n".join(lines(big_machine(), 120))
    assert any("2 × L2 2 MiB  4 efficiency cores each  CPUs 8-11 | 12-15" in line for line in lines(hybrid(), 120))
    assert any("Zone 2  no CPUs  185 GiB  memory of GPU0" in line for line in lines(grace_blackwell(), 120))


# --- width


@pytest.mark.parametrize("name", ALL)
def test_no_line_is_too_long(name: str) -> None:
    """From 40 to 200 columns, no line of any machine is longer than the terminal is wide."""
    machine = ALL[name]()
    for width in range(40, 201, 8):
        assert max(column_width(line) for line in lines(machine, width)) <= width


@settings(max_examples=40, deadline=None)
@given(any_machines(), st.integers(40, 200))
def test_no_line_of_any_machine_is_too_long(machine: Machine, width: int) -> None:
    """Names may have 200 or no characters, or wide ones; in ASCII, every line has the same width."""
    shown = lines(machine, width)
    assert all(column_width(line) <= width for line in shown)
    assert [column_width(line) for line in lines(machine, width, unicode=False)] == [
        column_width(line) for line in shown
    ]


def test_a_narrower_terminal_gets_the_narrowest_picture() -> None:
    """Below 40 columns, the layout does not change, and nothing fails."""
    assert lines(gpu_server(), 7) == lines(gpu_server(), NARROWEST)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("width", [60, 100, 160])
def test_frames_are_closed(name: str, width: int) -> None:
    """As many boxes end as begin, and every line of a box ends with its edge."""
    shown = lines(ALL[name](), width)
    text = "\n".join(shown)
    assert text.count("╭") + text.count("┌") == text.count("╯") + text.count("┘")
    assert all(line.endswith("│") for line in shown if line.startswith("│"))


# --- colour, character set


@settings(max_examples=40, deadline=None)
@given(any_machines(), st.integers(40, 200))
def test_colour_only_adds(machine: Machine, width: int) -> None:
    """Without its colour codes, the coloured picture equals the colourless one, which has no escape sequences."""
    plain = render_terminal(machine, width, colour=False)
    assert "\x1b" not in plain
    assert CODES.sub("", render_terminal(machine, width, colour=True)) == plain


def test_colours_end_where_they_begin() -> None:
    """Every span is reset before the next begins, so truncated output leaves no colour after a line."""
    for line in render_terminal(gpu_server(), 120, colour=True).split("\n"):
        codes = CODES.findall(line)
        assert all((code == "\x1b[0m") == bool(i % 2) for i, code in enumerate(codes))
        assert len(codes) % 2 == 0


@pytest.mark.parametrize("name", ALL)
def test_ascii_is_ascii(name: str) -> None:
    """Without Unicode, only ASCII is printed."""
    assert render_terminal(ALL[name](), 100, colour=False, unicode=False).isascii()


def test_names_cannot_control_the_terminal() -> None:
    """An escape character in a host name is shown as a mark and has no effect."""
    shown = render_terminal(small_vm()._replace(hostname="a\x1b[2Jb\nc"), 80, colour=False)
    assert "\x1b" not in shown
    assert "a\N{REPLACEMENT CHARACTER}[2Jb\N{REPLACEMENT CHARACTER}c" in shown


# --- content


def test_an_empty_machine_has_a_picture() -> None:
    """Nothing is known, so nothing is shown."""
    assert lines(Machine(), 80) == ["Linux machine", "zones unknown", ""]


def test_a_degraded_link_is_marked_at_every_width() -> None:
    """The mark is text, so it does not depend on colours; it is never cut off."""
    for width in (40, 80, 120, 200):
        assert any("! link degraded to x4" in line for line in lines(gpu_server(), width))


def test_a_long_name_does_not_move_the_columns_of_others() -> None:
    """The device with the long name takes two lines; the columns of the others and the packages are not moved."""
    machine = gpu_server()
    first = machine.nics[0]._replace(name="enp39s0f0np0v1234567890")
    shown = lines(machine._replace(nics=(first, *machine.nics[1:])), 120)
    assert any(line.count("╭─ Package") == 2 for line in shown)
    assert any("├ enp39s0f0np0v1234567890  Ethernet 25 Gb/s" in line for line in shown)
    assert any("├ GPU0        NVIDIA H100 80GB HBM3  Gen5 x16" in line for line in shown)


def test_devices_of_unknown_zone_have_a_box() -> None:
    """The title of the box names the unknown zone."""
    machine = small_vm()
    machine = machine._replace(
        pci=tuple(entry._replace(zone=None) for entry in machine.pci),
        nics=tuple(entry._replace(zone=None) for entry in machine.nics),
        block_devices=tuple(entry._replace(zone=None) for entry in machine.block_devices),
    )
    assert any("Devices of unknown zone" in line for line in lines(machine, 80))


def test_distances_are_a_table_if_it_fits() -> None:
    """Each zone has a row. A table that does not fit is omitted; the JSON document has it."""
    shown = lines(gpu_server(), 80)
    assert "Zone 2     21  21  10  12" in shown
    assert not any(line.startswith("Distances") for line in lines(big_machine(), 40))
