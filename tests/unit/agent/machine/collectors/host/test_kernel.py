"""Host name, architecture and kernel; the firmware's name of the machine; and secrets that are never published."""

from __future__ import annotations

import gzip
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged
from support.trees import Contents, line
from zonewise.machine.collector import Peek
from zonewise.machine.collectors.host import firmware
from zonewise.machine.collectors.host import kernel as host
from zonewise.machine.collectors.host.architecture import cpuinfo_architecture, release_architecture
from zonewise.machine.collectors.host.kernel import REDACTED, redacted
from zonewise.machine.collectors.host.kernel_config import MAX_CONFIG
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import DirectoryFiles, MemoryFiles

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

RELEASE = "6.8.0-45-generic"
VERSION = "#45-Ubuntu SMP PREEMPT_DYNAMIC Fri Aug 30 12:02:04 UTC 2024"
CONFIG = b"# Automatically generated\nCONFIG_NUMA=y\n# CONFIG_NO_HZ_FULL is not set\nCONFIG_HZ=250\nCONFIG_XYZ=m\n"
DMI = "sys/class/dmi/id"


def host_tree() -> Contents:
    """Return the tree of a running kernel."""
    return {
        "proc/sys/kernel/osrelease": line(RELEASE),
        "proc/sys/kernel/version": line(VERSION),
        "proc/sys/kernel/hostname": line("node-7"),
        "proc/sys/kernel/arch": line("x86_64"),
        "proc/cmdline": b'root=/dev/sda1 ro isolcpus=2-7 dyndbg="file a.c +p" quiet\n',
        "proc/modules": b"nvidia 123 4 nvidia_uvm, Live 0x0\nmlx5_core 5 0 - Live 0x0\n",
        "proc/config.gz": gzip.compress(CONFIG),
        "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": line(0),
        "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": line(0),
    }


def scan_host(tree: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=(host.COLLECTOR, firmware.COLLECTOR)).scan()


def discover_host(tree: Contents) -> Machine:
    return scan_host(tree).machine


# --- the kernel


def test_a_running_kernel() -> None:
    """Every fact is read from the kernel's file, without a problem."""
    machine = discover_host(host_tree())
    kernel = machine.kernel
    assert (machine.hostname, machine.architecture) == ("node-7", "x86_64")
    assert (kernel.release, kernel.version) == (RELEASE, VERSION)
    assert kernel.command_line == ("root=/dev/sda1", "ro", "isolcpus=2-7", 'dyndbg="file a.c +p"', "quiet")
    assert kernel.modules == ("mlx5_core", "nvidia")
    assert kernel.config == {"NUMA": "y", "NO_HZ_FULL": "n", "HZ": "250"}
    assert kernel.config_lines == "NUMA=y\nHZ=250\nXYZ=m"
    assert (kernel.page_size, kernel.huge_page_sizes) == (4096, (2 << 20, 1 << 30))
    assert machine.problems == ()


def test_the_banner() -> None:
    """In a capture without kernel parameters, /proc/version has the release and the version."""
    text = f"Linux version {RELEASE} (builder@host (a)) (gcc (Debian 12) 12.2, GNU ld (GNU Binutils) 2.40) {VERSION}\n"
    kernel = discover_host({"proc/version": text.encode()}).kernel
    assert (kernel.release, kernel.version) == (RELEASE, VERSION)


def test_facts_of_uname() -> None:
    """A machine captured by hwloc-gather-topology has a file with the output of uname."""
    text = (
        f"OSName: Linux\nOSRelease: {RELEASE}\nOSVersion: {VERSION}\nHostName: n1\nArchitecture: aarch64\n"
        "FallbackNbProcessors: 128\nPageSize: 65536\n"
    )
    machine = discover_host({"proc/hwloc-nofile-info": text.encode()})
    assert (machine.hostname, machine.architecture) == ("n1", "aarch64")
    assert (machine.kernel.release, machine.kernel.version) == (RELEASE, VERSION)
    assert machine.kernel.page_size == 65536


def test_an_empty_root_has_no_facts() -> None:
    """An empty tree gives neither a fact nor a problem."""
    machine = discover_host({"sys": None})
    assert (machine.hostname, machine.architecture, machine.kernel.release) == (None, None, None)
    assert machine.kernel.modules is None
    assert machine.kernel.config is None
    assert machine.problems == ()


@pytest.mark.parametrize(
    "name", ["proc/sys/kernel/osrelease", "proc/sys/kernel/version", "proc/sys/kernel/hostname", "proc/cmdline"]
)
def test_a_parameter_that_is_lost(name: str) -> None:
    """If the directory of kernel parameters exists, a missing parameter is a loss."""
    assert [problem.path for problem in scan_host(host_tree(), {name: Damage(DELETE)}).machine.problems] == [f"/{name}"]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("root=/dev/sda1", "root=/dev/sda1"),
        ("quiet", "quiet"),
        ("isolcpus=2-7", "isolcpus=2-7"),
        ("vconsole.keymap=us", "vconsole.keymap=us"),
        ("rd.iscsi.password=hunter2", f"rd.iscsi.password={REDACTED}"),
        ("rd.iscsi.in.password=hunter2", f"rd.iscsi.in.password={REDACTED}"),
        ("systemd.set_credential=passwd.hashed-password.root:$6$x", f"systemd.set_credential={REDACTED}"),
        ("k3s.token=abc", f"k3s.token={REDACTED}"),
        ("wifi.psk=abc", f"wifi.psk={REDACTED}"),
        ("netroot=iscsi:user:hunter2@10.0.0.1::3260::iqn", f"netroot=iscsi:{REDACTED}@10.0.0.1::3260::iqn"),
        ("inst.repo=https://me:hunter2@host/repo", f"inst.repo=https://{REDACTED}@host/repo"),
    ],
)
def test_secrets(parameter: str, expected: str) -> None:
    """Passwords, tokens and keys in the kernel's parameters are replaced; the rest is unchanged."""
    assert redacted(parameter) == expected


def test_secrets_are_not_in_the_sources_either() -> None:
    """The sources, which are shown as well, contain no secret; nor do the arguments for init after "--"."""
    tree = host_tree() | {"proc/cmdline": b"ro rd.iscsi.password=hunter2 -- --token hunter2\n"}
    scan = scan_host(tree)
    assert scan.machine.kernel.command_line == ("ro", f"rd.iscsi.password={REDACTED}")
    assert "hunter2" not in repr((scan.machine, scan.sources))


@pytest.mark.parametrize("content", [b"99999999\n", b"\xff\xfe\0\x80\n", b"ro root=/dev/s"])
def test_a_garbled_list_of_parameters_is_reported(content: bytes) -> None:
    """Noise and a list without a line end are damage."""
    machine = discover_host(host_tree() | {"proc/cmdline": content})
    assert [problem.path for problem in machine.problems] == ["/proc/cmdline"]


@pytest.mark.parametrize("directory", ["lib", "usr/lib"])
def test_modules_in_the_kernel(directory: str) -> None:
    """The build writes a list of these files beside the loadable modules."""
    content = b"kernel/fs/ext4/ext4.ko\nkernel/drivers/nvme/host/nvme-core.ko\n\nkernel/no-module\n"
    tree = host_tree() | {f"{directory}/modules/{RELEASE}/modules.builtin": content}
    assert discover_host(tree).kernel.builtin_modules == ("ext4", "nvme-core")
    assert discover_host(host_tree()).kernel.builtin_modules is None


def test_configuration_beside_the_kernel() -> None:
    """Without /proc/config.gz, the configuration is read from the path that distributions use for this release."""
    tree = host_tree() | {f"boot/config-{RELEASE}": CONFIG, "boot/config-5.4.0": b"CONFIG_NUMA=n\n"}
    del tree["proc/config.gz"]
    scan = scan_host(tree)
    assert (scan.machine.kernel.config or {})["NUMA"] == "y"
    assert scan.sources["kernel.config"].file == f"/boot/config-{RELEASE}"


def test_a_release_is_not_a_path() -> None:
    """A release that is a path to another directory reads nothing."""
    tree = host_tree() | {"proc/sys/kernel/osrelease": b"../../etc/passwd\n", "etc/passwd": CONFIG}
    del tree["proc/config.gz"]
    assert discover_host(tree).kernel.config is None


@pytest.mark.parametrize("content", [b"", b"\x1f\x8b", b"noise", gzip.compress(b"no option at all\n", mtime=0)])
def test_configurations_that_are_damaged(content: bytes) -> None:
    """A file that cannot be decompressed or contains no option is unknown and reported."""
    machine = discover_host(host_tree() | {"proc/config.gz": content})
    assert machine.kernel.config is None
    assert [problem.path for problem in machine.problems] == ["/proc/config.gz"]


def test_a_configuration_that_would_fill_the_memory() -> None:
    """Decompression stops at a limit, whatever the file contains."""
    bomb = gzip.compress(CONFIG + b"#" * (4 * MAX_CONFIG))
    assert len(bomb) < MAX_CONFIG // 100
    assert (discover_host(host_tree() | {"proc/config.gz": bomb}).kernel.config or {})["NUMA"] == "y"


@pytest.mark.parametrize(
    ("options", "size"),
    [(b"CONFIG_PAGE_SHIFT=16\n", 65536), (b"CONFIG_ARM64_PAGE_SHIFT=12\n", 4096), (b"CONFIG_PAGE_SHIFT=99\n", None)],
)
def test_page_sizes_by_option(options: bytes, size: int | None) -> None:
    """If an architecture has several page sizes, the kernel's option decides; impossible values are ignored."""
    tree = host_tree() | {
        "proc/sys/kernel/arch": b"aarch64\n",
        "proc/config.gz": gzip.compress(b"CONFIG_NUMA=y\n" + options),
    }
    assert discover_host(tree).kernel.page_size == size


def test_huge_page_sizes_by_node() -> None:
    """If the machine's list is lost, the pools of node 0 give the sizes, and the loss is reported."""
    tree = {key: value for key, value in host_tree().items() if "hugepages" not in key}
    tree["sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages"] = line(0)
    machine = discover_host(tree)
    assert machine.kernel.huge_page_sizes == (2 << 20,)
    assert len(machine.problems) == 1


def test_the_live_machine() -> None:
    """The machine that runs the tests has the name, architecture and page size that its system calls return."""
    machine = Scanner(DirectoryFiles("/"), collectors=(host.COLLECTOR,)).scan().machine
    uname = os.uname()
    assert (machine.architecture, machine.hostname) == (uname.machine, uname.nodename)
    assert (machine.kernel.release, machine.kernel.version) == (uname.release, uname.version)
    assert machine.kernel.page_size == os.sysconf("SC_PAGE_SIZE")


def test_what_causes_a_rescan() -> None:
    """A new name or a loaded module changes the signature; the use counts of modules do not."""

    def signature(tree: Contents) -> object:
        return host.COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))

    tree = host_tree() | {"sys/module/nvidia/refcnt": line(4)}
    before = signature(tree)
    assert signature(tree | {"proc/modules": b"nvidia 123 5 nvidia_uvm, Live 0x0\n"}) == before
    assert signature(tree | {"sys/module/vfio/refcnt": line(0)}) != before
    assert signature(tree | {"proc/sys/kernel/hostname": line("node-8")}) != before


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(host_tree())), DAMAGES, min_size=1, max_size=6))
def test_damage_does_not_fail_the_collector(damages: dict[str, Damage]) -> None:
    """Whatever is damaged, nothing fails, and all text can be printed."""
    scan = scan_host(host_tree(), damages)
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    repr(scan.machine).encode()


# --- the architecture


def cpuinfo(**lines: str) -> bytes:
    return "".join(f"{key.replace('__', ' ')}\t: {value}\n" for key, value in lines.items()).encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (cpuinfo(processor="0", flags="fpu tsc lm sse2"), "x86_64"),
        (cpuinfo(processor="0", fdiv_bug="no", flags="fpu tsc lm sse2"), "i686"),
        (cpuinfo(processor="0", flags="fpu tsc sse2"), "i686"),
        (cpuinfo(Features="fp asimd", CPU__implementer="0x41", CPU__architecture="8"), "aarch64"),
        (cpuinfo(Features="swp half", CPU__implementer="0x41", CPU__architecture="7"), "armv7l"),
        (cpuinfo(cpu="POWER9, altivec supported", revision="2.1 (pvr 004e 1201)"), "ppc64le"),
        (cpuinfo(cpu="POWER10 (architected)", revision="2.0 (pvr 0080 0200)"), "ppc64le"),
        (cpuinfo(cpu="POWER7 (architected)", revision="2.1 (pvr 003f 0201)"), "ppc64"),
        (cpuinfo(cpu="POWER8E (raw)", revision="2.1 (pvr 004b 0201)"), None),
        (cpuinfo(cpu="740/750", revision="3.1 (pvr 0008 0301)"), "ppc"),
        (cpuinfo(vendor_id="IBM/S390", features="esan3 zarch"), "s390x"),
        (cpuinfo(processor="0", isa="rv64imafdc_zba"), "riscv64"),
        (cpuinfo(processor="0", ISA="loongarch32 loongarch64"), "loongarch64"),
        (cpuinfo(processor="0", arch="IA-64"), "ia64"),
        (cpuinfo(cpu="UltraSparc T2", type="sun4v"), "sparc64"),
        (cpuinfo(processor="0"), None),
        (b"", None),
        (b"\xff\xfe\0" * 50, None),
    ],
)
def test_dialects(text: bytes, expected: str | None) -> None:
    """Each architecture describes its CPUs in its own format; an empty text is unknown."""
    assert cpuinfo_architecture(text) == expected


def test_a_long_text_is_read_at_both_ends() -> None:
    """The lines of the first CPU decide, however many follow."""
    block = cpuinfo(processor="0", flags="fpu tsc lm " + "x" * 900)
    assert cpuinfo_architecture(block * 2000) == "x86_64"


@pytest.mark.parametrize(
    ("release", "expected"),
    [("4.18.0-513.el8.ppc64le", "ppc64le"), ("5.14.0.x86_64", "x86_64"), (RELEASE, None), ("6.1", None)],
)
def test_releases(release: str, expected: str | None) -> None:
    """Some distributions append the architecture to the release."""
    assert release_architecture(release) == expected


# --- the firmware


def dmi_tree() -> Contents:
    names = {
        "sys_vendor": "Dell Inc.",
        "product_name": "PowerEdge XE9680 ",
        "product_version": "",
        "product_serial": "SERIAL-1",
        "product_uuid": "UUID-1",
        "board_vendor": "Dell Inc.",
        "board_name": "0KVG1V",
        "board_version": "A03",
        "board_serial": "SERIAL-2",
        "board_asset_tag": "ASSET-1",
        "bios_vendor": "Dell Inc.",
        "bios_version": "2.1.5",
        "bios_date": "03/18/2024",
        "chassis_vendor": "Dell Inc.",
        "chassis_type": "23",
        "chassis_version": "",
        "chassis_serial": "SERIAL-3",
        "chassis_asset_tag": "ASSET-2",
        "modalias": "dmi:bvnDellInc.:bvr2.1.5:bd03/18/2024:svnDellInc.:pnPowerEdgeXE9680:pvr:rvnDellInc.:rn0KVG1V:"
        "rvrA03:cvnDellInc.:ct23:cvr:skuSKU=NotProvided:",
    }
    return {f"{DMI}/{name}": line(value) for name, value in names.items()}


def test_dmi() -> None:
    """Vendor, product and the rest are DMI's, without surrounding blanks; blank ones are unknown."""
    machine = discover_host(dmi_tree())
    firmware_facts = machine.firmware
    assert (firmware_facts.vendor, firmware_facts.product, firmware_facts.version) == (
        "Dell Inc.",
        "PowerEdge XE9680",
        None,
    )
    assert (firmware_facts.board, firmware_facts.board_version, firmware_facts.chassis_type) == ("0KVG1V", "A03", "23")
    assert (firmware_facts.bios_version, firmware_facts.bios_date) == ("2.1.5", "03/18/2024")
    assert machine.product == "Dell Inc. PowerEdge XE9680"
    assert machine.problems == ()


def test_no_serial_numbers() -> None:
    """Serial numbers, UUIDs and asset tags are not read at all."""
    scan = scan_host(dmi_tree())
    text = repr((scan.machine, scan.sources))
    assert not any(word in text for word in ("SERIAL", "UUID", "ASSET"))


@pytest.mark.parametrize("name", ["sys_vendor", "product_name", "board_version", "bios_date", "chassis_type"])
@pytest.mark.parametrize("damage", [Damage(DELETE), Damage("content", 0, b""), Damage("content", 0, b"\n")])
def test_an_attribute_that_is_lost(name: str, damage: Damage) -> None:
    """An attribute of an existing structure, or one that modalias repeats, is lost if it is absent, empty or blank."""
    problems = scan_host(dmi_tree(), {f"{DMI}/{name}": damage}).machine.problems
    assert {problem.path for problem in problems} == {f"/{DMI}/{name}"}


def test_a_structure_that_firmware_lacks_is_not_a_loss() -> None:
    """Virtual machines often have no board."""
    tree = {key: value for key, value in dmi_tree().items() if "board" not in key}
    machine = discover_host(tree)
    assert machine.firmware.board is None
    assert machine.problems == ()


def test_a_directory_that_cannot_be_listed() -> None:
    """Attributes that can be read without the listing are used, and the failure is reported."""
    machine = scan_host(dmi_tree(), {DMI: Damage(DELETE)}).machine
    assert machine.firmware.product == "PowerEdge XE9680"
    assert machine.problems[0].path == f"/{DMI}"


@pytest.mark.parametrize(
    ("vendor", "product", "expected"),
    [
        ("HP", "HP EliteBook", "HP EliteBook"),
        ("To Be Filled By O.E.M.", "H8QM8", "H8QM8"),
        ("Default string", "System Product Name", None),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "QEMU Standard PC (Q35 + ICH9, 2009)"),
        ("Supermicro", "0000000000", "Supermicro"),
    ],
)
def test_products(vendor: str, product: str, expected: str | None) -> None:
    """A machine's name is vendor and product; the vendor occurs once, and placeholders are removed."""
    tree = dmi_tree() | {f"{DMI}/sys_vendor": line(vendor), f"{DMI}/product_name": line(product)}
    assert discover_host(tree).product == expected


def test_strings_of_several_lines_and_of_bytes() -> None:
    """The first line is the name, without the carriage return of some firmware; bytes that are no text are escaped."""
    tree = dmi_tree() | {f"{DMI}/board_version": b"A03\nleftover\n", f"{DMI}/board_name": b"caf\xe9\n"}
    machine = discover_host(tree | {f"{DMI}/bios_version": b".0b\r\n"})
    assert (machine.firmware.board_version, machine.firmware.board) == ("A03", "caf\\xe9")
    assert (machine.firmware.bios_version, machine.problems) == (".0b", ())


def test_a_device_tree() -> None:
    """The name of a machine with a device tree is its model."""
    tree: Contents = {
        "proc/device-tree/model": b"Raspberry Pi 4 Model B Rev 1.4\0",
        "proc/device-tree/compatible": b"raspberrypi,4-model-b\0brcm,bcm2711\0",
    }
    machine = discover_host(tree)
    assert machine.product == "Raspberry Pi 4 Model B Rev 1.4"
    assert machine.firmware.compatible == ("raspberrypi,4-model-b", "brcm,bcm2711")


def test_power() -> None:
    """POWER kernels print platform and machine after the CPUs."""
    text = cpuinfo(processor="0", cpu="POWER9, altivec supported", revision="2.1 (pvr 004e 1201)")
    text += b"\n" + cpuinfo(timebase="512000000", platform="PowerNV", model="8335-GTW", machine="PowerNV 8335-GTW")
    machine = discover_host({"proc/cpuinfo": text})
    assert (machine.firmware.platform, machine.firmware.product) == ("PowerNV", "PowerNV 8335-GTW")


def test_mainframes() -> None:
    """s390 has manufacturer, type and model; its sequence code is not read."""
    text = b"Manufacturer:         IBM             \nType:                 2964\n"
    text += b"Model:                703              N96             \nSequence Code:        00000000000829E7\n"
    scan = scan_host({"proc/sysinfo": text})
    assert scan.machine.product == "IBM 2964 703 N96"
    assert "829E7" not in repr((scan.machine, scan.sources))


def test_a_mainframe_that_lost_its_lines() -> None:
    """Lines that /proc/sysinfo lacks are unknown and reported."""
    machine = scan_host({"proc/sysinfo": b"Manufacturer:         IBM             \nTy"}).machine
    assert (machine.firmware.vendor, machine.firmware.product) == ("IBM", None)
    assert [each.problem for each in machine.problems if each.path == "/proc/sysinfo"] == ["has no line Type, Model"]
