"""Scrubbing a tree: what remains of each kind of file, what is removed, and that no identifier remains."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from zonewise.machine.capture.identifiers import Identifiers
from zonewise.machine.capture.scrubber import NotScrubbed, Scrubber

if TYPE_CHECKING:
    from zonewise.machine.capture.recording import Entries

MAC = "b8:ce:f6:12:34:56"
UUID = "6f1c2a4e-93bd-4c1b-8e55-0123456789ab"


def scrubbed(entries: Entries) -> Entries:
    return Scrubber(entries).entries(entries)


def content(path: str, before: bytes) -> bytes:
    after = scrubbed({path: before})[path]
    assert isinstance(after, bytes)
    return after


def test_command_line_retains_hardware_parameters() -> None:
    """Parameters of CPUs, memory and devices remain; values that name disks, servers or passwords are removed."""
    line = (
        b"BOOT_IMAGE=/vmlinuz-6.8 root=UUID=6f1c2a4e-93bd-4c1b-8e55-0123456789ab ip=10.1.2.3::10.1.2.1 ro quiet "
        b"nfsroot=10.0.0.5:/export isolcpus=2-7 nohz_full=2-7 hugepagesz=1G hugepages=16 intel_iommu=on "
        b"systemd.setenv=TOKEN=hunter2 pci=realloc my-secret -- init secret\n"
    )
    assert content("proc/cmdline", line) == (
        b"removed root=removed ip=removed ro quiet nfsroot=removed isolcpus=2-7 nohz_full=2-7 hugepagesz=1G "
        b"hugepages=16 intel_iommu=on systemd.setenv=removed pci=realloc removed\n"
    )


def test_hostname_is_removed_and_its_file_remains() -> None:
    """The file still exists, and has content if it had content."""
    assert content("proc/sys/kernel/hostname", b"gpu-07.example.com\n") == b"removed\n"
    assert content("proc/sys/kernel/hostname", b"\n") == b"\n"


def test_a_distinctive_hostname_is_removed_everywhere() -> None:
    """A hostname also occurs in descriptions and service paths.

    One that is a common word reveals nothing and remains there.
    """
    entries: Entries = {
        "proc/sys/kernel/hostname": b"gpu-07\n",
        "sys/class/x/text": b"gpu-07 mlx5_0\n",
    }
    assert scrubbed(entries)["sys/class/x/text"] == b"removed-1 mlx5_0\n"
    entries["proc/sys/kernel/hostname"] = b"intel\n"
    assert scrubbed({**entries, "sys/class/x/text": b"intel gpu\n"})["sys/class/x/text"] == b"intel gpu\n"


def test_a_hostname_that_is_also_a_file_name() -> None:
    """A hostname that is also a name in the tree does not damage the tree."""
    entries: Entries = {"proc/sys/kernel/hostname": b"node1\n", "sys/devices/system/node/node1/cpulist": b"0-3\n"}
    assert scrubbed(entries) == {**entries, "proc/sys/kernel/hostname": b"removed\n"}


def test_serial_numbers() -> None:
    """They are removed from their own files and from all other texts."""
    entries: Entries = {
        "sys/class/nvme/nvme0/serial": b"S4NTNA0R500123      \n",
        "sys/class/nvme/nvme0/address": b"0000:05:00.0\n",
        "sys/x/name": b"SAMSUNG_S4NTNA0R500123\n",
    }
    assert scrubbed(entries) == {
        "sys/class/nvme/nvme0/serial": b"removed\n",
        "sys/class/nvme/nvme0/address": b"0000:05:00.0\n",
        "sys/x/name": b"SAMSUNG_removed-1\n",
    }


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("proc/cpuinfo", b"Model : Pi 4\nSerial\t\t: 10000000abcdef\n", b"Model : Pi 4\nSerial\t\t: removed\n"),
        ("proc/sysinfo", b"Type: 8561\nSequence Code: 00000000000829E8\n", b"Type: 8561\nSequence Code: removed\n"),
        ("proc/sysinfo", b"LPAR Name:            PROD1   \n", b"LPAR Name:            removed\n"),
        ("proc/ppc64/lparcfg", b"serial_number=IBM,0210\n", b"serial_number=removed\n"),
        ("proc/modules", b"mlx5_core 1 0 - Live 0xffffffffc0a3b000\n", b"mlx5_core 1 0 - Live 0x0000000000000000\n"),
    ],
)
def test_lines_that_name_the_machine(path: str, before: bytes, after: bytes) -> None:
    """In files with much other content, single lines are removed."""
    assert content(path, before) == after


@pytest.mark.parametrize("line", [
    b"NVRM: GPU Board Serial Number: <1322920012345>",
    b"NVRM: Xid (PCI:0000:3b:00): 31, pid=77, name=<my model>, Ch 00000008",
    b"mce: [Hardware Error]: CPU 3: Machine Check: 0 PPIN: <2b8f0c1d5e>",
    b"{1}[Hardware Error]:   serial number: <0x0123, 0x4567>",
    b"amdgpu 0000:83:00.0: [gfxhub0] page fault (src_id:0 pasid:7, for process <my app pid 77 thread my app pid 77>)",
    b"Memory failure: 0x1f: Sending SIGBUS to <my:app>:77 due to hardware memory corruption",
])  # fmt: skip
def test_the_kernel_log_names_neither_parts_nor_processes(line: bytes) -> None:
    """The text in angle brackets is removed, and nothing else."""
    before, after = re.sub(rb"[<>]", b"", line), re.sub(rb"<.*>", b"removed", line)
    assert content("zonewise/kernel.log", before + b"\n") == after + b"\n"


def test_mounts() -> None:
    """Mounts of the kernel remain; those of disks, servers and container overlays are removed."""
    retained = b"cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nhugetlbfs /dev/hugepages hugetlbfs rw 0 0\n"
    removed = b"server.example:/home/jane /home nfs4 rw,addr=10.0.0.5 0 0\n/dev/mapper/secret / ext4 rw 0 0\n"
    assert content("proc/42/mounts", removed + retained) == retained


def test_mountinfo() -> None:
    """The type follows the dash, after a varying number of optional fields."""
    retained = b"29 22 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
    removed = (
        b"30 22 0:27 / /home rw - nfs4 server.example:/home rw\n"
        b"31 22 0:28 / / rw shared:1 master:2 - ext4 /dev/sda rw\n"
    )
    assert content("proc/42/mountinfo", removed + retained) == retained


def test_names_links_and_contents_agree() -> None:
    """An interface named after its address is renamed in its path, in links to it, and in texts."""
    entries: Entries = {
        "sys/devices/x/net/enxb8cef6123456/address": MAC.encode() + b"\n",
        "sys/class/net/enxb8cef6123456": "../../devices/x/net/enxb8cef6123456",
    }
    assert scrubbed(entries) == {
        "sys/devices/x/net/enx020000000001/address": b"02:00:00:00:00:01\n",
        "sys/class/net/enx020000000001": "../../devices/x/net/enx020000000001",
    }


def test_bytes_that_are_not_text_are_unchanged() -> None:
    """Binary files are unchanged byte for byte unless they contain an identifier."""
    everything = bytes(range(256))
    assert content("sys/bus/pci/devices/0000:00:00.0/config", everything) == everything


def test_nothing_is_written_if_an_identifier_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a rule fails, the final check raises an error."""

    def unchanged(self: Identifiers, text: str) -> str:
        return text

    monkeypatch.setattr(Identifiers, "replaced", unchanged)
    with pytest.raises(
        NotScrubbed, match=r"/sys/class/net/eth0/address would still contain an identifier \(b8:c\.\.\.\)"
    ):
        scrubbed({"sys/class/net/eth0/address": MAC.encode()})


def test_uuids_of_gpus() -> None:
    """A GPU has the same stand-in in every file."""
    entries: Entries = {
        "zonewise/nvml.json": f'{{"uuid":"GPU-{UUID}"}}'.encode(),
        "proc/driver/nvidia/gpus/0000:19:00.0/information": f"GPU UUID: \t GPU-{UUID}\n".encode(),
    }
    scrubbed_bytes = b"".join(entry for entry in scrubbed(entries).values() if isinstance(entry, bytes))
    assert scrubbed_bytes.count(b"GPU-00000000-0000-4000-8000-000000000001") == 2
