"""Whether the machine is a guest, and of which hypervisor, from plain files."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, Damage, Damaged
from support.trees import Contents, line
from zonewise.machine.collectors.cpu import cpus
from zonewise.machine.collectors.host import firmware, virtualization
from zonewise.machine.collectors.host import kernel as host
from zonewise.machine.collectors.host.hypervisors import by_clocks, by_dmi, by_pci, hypervisor_vendor
from zonewise.machine.collectors.pci import functions as pci
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Firmware, Virtualization

COLLECTORS = (host.COLLECTOR, firmware.COLLECTOR, cpus.COLLECTOR, pci.COLLECTOR, virtualization.COLLECTOR)
DMI = "sys/class/dmi/id"
CLOCKS = virtualization.CLOCKS
SYSINFO = """Manufacturer:         IBM
Type:                 2964

LPAR Number:          22
LPAR Name:            L16
"""


def x86_tree(flags: str = "fpu tsc lm", vendor: str = "", product: str = "") -> Contents:
    """Return the tree of an x86 machine."""
    tree: Contents = {
        "sys/devices/system/cpu/possible": line(0),
        "sys/devices/system/cpu/online": line(0),
        "sys/devices/system/cpu/cpu0/online": line(1),
        "proc/cpuinfo": f"processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: {flags}\n".encode(),
    }
    if vendor or product:
        names = {"sys_vendor": vendor, "product_name": product, "product_version": ""}
        tree |= {f"{DMI}/{name}": line(value) for name, value in names.items()}
    return tree


def scan_tree(tree: Contents, damages: dict[str, Damage] | None = None) -> Scan:
    files = Damaged(MemoryFiles(tree.items()), damages or {})
    return Scanner(files, explain=True, collectors=COLLECTORS).scan()


def scan_virtualization(tree: Contents) -> Virtualization:
    return scan_tree(tree).machine.virtualization


GUEST = "fpu tsc lm hypervisor"


@pytest.mark.parametrize(
    ("vendor", "product", "hypervisor", "maker"),
    [
        ("QEMU", "KVM Virtual Machine", "KVM", "KVM"),
        ("QEMU", "Standard PC (Q35 + ICH9, 2009)", "QEMU", "QEMU"),
        ("Red Hat", "OpenStack Compute", "KVM", "KVM"),
        ("VMware, Inc.", "VMware7,1", "VMware", "VMware"),
        ("Microsoft Corporation", "Virtual Machine", "Microsoft", "Microsoft"),
        ("innotek GmbH", "VirtualBox", "VirtualBox", "Oracle"),
        ("Xen", "HVM domU", "Xen", "Xen"),
        ("Amazon EC2", "m5.large", "KVM", "KVM"),
        ("Google", "Google Compute Engine", "KVM", "KVM"),
        ("Alibaba Cloud", "Alibaba Cloud ECS", "KVM", "KVM"),
        ("Nutanix", "AHV", None, None),
    ],
)
def test_guests_by_their_firmware(vendor: str, product: str, hypervisor: str | None, maker: str | None) -> None:
    """With the processor's flag, a machine is a guest. DMI names the hypervisor, or the cloud that implies one."""
    detected = scan_virtualization(x86_tree(GUEST, vendor, product))
    assert (detected.guest, detected.hypervisor, detected.vendor, detected.type) == (True, hypervisor, maker, "full")


@pytest.mark.parametrize(
    ("vendor", "product"),
    [
        ("Amazon EC2", "c5.metal"),
        ("Google", "Google Compute Engine"),
        ("Microsoft Corporation", "Surface Laptop 4"),
        ("Oracle Corporation", "SUN FIRE X4170 M2"),
        ("Dell Inc.", "PowerEdge R740"),
    ],
)
def test_machines_that_only_sound_like_guests(vendor: str, product: str) -> None:
    """Without the flag, the name of a cloud or of a maker of hypervisors is that of a bare-metal machine."""
    assert scan_virtualization(x86_tree("fpu tsc lm vmx", vendor, product)) == Virtualization(False, extensions="VT-x")


def test_extensions() -> None:
    """The extensions are the processor's features for hosting guests."""
    assert scan_virtualization(x86_tree("fpu tsc lm svm")).extensions == "AMD-V"
    assert scan_virtualization(x86_tree("fpu tsc lm")).extensions is None


def test_a_hidden_hypervisor() -> None:
    """A hypervisor that hides its flag is recognised by names that no hardware has."""
    assert scan_virtualization(x86_tree("fpu tsc lm", "QEMU", "Standard PC (i440FX + PIIX, 1996)")).guest is True


@pytest.mark.parametrize(
    ("clocks", "hypervisor"),
    [
        (b"tsc kvm-clock acpi_pm \n", "KVM"),
        (b"hyperv_clocksource_tsc_page hyperv_clocksource_msr\n", "Microsoft"),
        (b"xen tsc hpet\n", "Xen"),
        (b"tsc hpet acpi_pm \n", None),
    ],
)
def test_guests_by_their_clocks(clocks: bytes, hypervisor: str | None) -> None:
    """A guest without DMI (a microVM) has the clock of its hypervisor."""
    assert scan_virtualization(x86_tree(GUEST) | {CLOCKS: clocks}).hypervisor == hypervisor


def test_the_clock_source_reveals_kvm() -> None:
    """QEMU's names together with KVM's clock mean KVM."""
    tree = x86_tree(GUEST, "QEMU", "Standard PC (Q35)") | {CLOCKS: b"kvm-clock tsc\n"}
    assert scan_virtualization(tree).hypervisor == "KVM"


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ({"sys/hypervisor/guest_type": b"HVM\n"}, "full"),
        ({"sys/hypervisor/guest_type": b"PV\n"}, "para"),
        ({"sys/hypervisor/guest_type": b"PVH\n"}, "para"),
        ({"sys/hypervisor/properties/features": b"000000ef\n"}, "para"),
        ({"sys/hypervisor/properties/features": b"00000705\n"}, "full"),
        ({"sys/hypervisor/properties/features": b"00000108\n"}, "para"),
        ({}, "full"),
    ],
)
def test_kinds_of_xen_guests(files: Contents, kind: str) -> None:
    """PV and PVH guests are built for the hypervisor, HVM guests are not."""
    detected = scan_virtualization(x86_tree(GUEST) | {"sys/hypervisor/type": b"xen\n"} | files)
    assert (detected.guest, detected.hypervisor, detected.type) == (True, "Xen", kind)


def test_the_machine_that_runs_xen() -> None:
    """The first domain drives the hardware and is not a guest."""
    tree = x86_tree(GUEST) | {"sys/hypervisor/type": b"xen\n", "proc/xen/capabilities": b"control_d\n"}
    assert scan_virtualization(tree) == Virtualization(False, "Xen", vendor="Xen")


def test_devices_of_hypervisors() -> None:
    """A display that only virtual machines have is a sign, in the old list of PCI functions or on the bus."""
    listed = b"0000\t80861237\t0\n0010\t80eebeef\t12\t        e0000000\n"
    assert scan_virtualization(x86_tree() | {"proc/bus/pci/devices": listed}).hypervisor == "VirtualBox"
    assert by_pci([("15ad", "0405")]) == "VMware"
    assert by_pci([("8086", "1237"), (None, None)]) is None


def test_a_garbled_list_of_devices_is_reported() -> None:
    """A list that names no function is damaged."""
    problems = scan_tree(x86_tree() | {"proc/bus/pci/devices": b"noise\n"}).machine.problems
    assert [problem.path for problem in problems] == ["/proc/bus/pci/devices"]


def test_kernels_of_wsl() -> None:
    """The kernels of the Windows Subsystem for Linux name their origin."""
    release = b"5.15.90.1-microsoft-standard-WSL2\n"
    tree = x86_tree(GUEST) | {"proc/version": b"Linux version " + release.strip() + b" (a) #1 SMP\n"}
    assert scan_virtualization(tree).hypervisor == "Microsoft"


# --- other architectures

ARM: Contents = {
    "proc/cpuinfo": b"processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU architecture: 8\n"
}


def test_arm() -> None:
    """Without a flag, only a sign makes the machine a guest; without a sign, it is unknown."""
    assert scan_virtualization(x86_tree() | ARM).guest is None
    assert scan_virtualization(x86_tree("", "Huawei", "TaiShan 200") | ARM).guest is None
    assert scan_virtualization(x86_tree("", "QEMU", "KVM Virtual Machine") | ARM).hypervisor == "KVM"
    tree = {"proc/device-tree/hypervisor/compatible": b"linux,kvm\0"}
    assert scan_virtualization(x86_tree() | ARM | tree).hypervisor == "KVM"


def test_arm_at_amazon() -> None:
    """The product name distinguishes bare metal from a guest."""
    guest = scan_virtualization(x86_tree("", "Amazon EC2", "m6g.large") | ARM)
    metal = scan_virtualization(x86_tree("", "Amazon EC2", "m6g.metal") | ARM)
    assert (guest.guest, guest.hypervisor) == (True, "KVM")
    assert (metal.guest, metal.hypervisor, metal.type) == (False, None, None)


def power(platform: str, machine: str) -> Contents:
    text = (
        b"processor\t: 0\ncpu\t\t: POWER9, altivec supported\nrevision\t: 2.1 (pvr 004e 1201)\n\n"
        + f"platform\t: {platform}\nmodel\t\t: x\nmachine\t\t: {machine}\n".encode()
    )
    return {"proc/cpuinfo": text}


@pytest.mark.parametrize(
    ("platform", "machine", "expected"),
    [
        ("PowerNV", "PowerNV 8335-GTW", (False, None, None, None)),
        ("pSeries", "CHRP IBM,9009-42A", (True, "PowerVM", "para", "pHyp")),
        ("pSeries", "CHRP IBM pSeries (emulated by qemu)", (True, "KVM", "para", "KVM")),
        ("PowerMac", "Power Macintosh", (None, None, None, None)),
    ],
)
def test_power(platform: str, machine: str, expected: tuple[bool | None, str | None, str | None, str | None]) -> None:
    """The platform pSeries is that of guests, PowerNV that of bare metal."""
    detected = scan_virtualization(x86_tree() | power(platform, machine))
    assert (detected.guest, detected.hypervisor, detected.type, detected.vendor) == expected


@pytest.mark.parametrize(
    ("programs", "hypervisor", "maker"),
    [
        ([], "PR/SM", "IBM"),
        (["z/VM    6.1.0   "], "z/VM 6.1.0", "IBM"),
        (["KVM/Linux       "], "KVM/Linux", "KVM"),
        (["KVM/Linux", "z/VM    6.4.0"], "KVM/Linux", "KVM"),
    ],
)
def test_mainframes(programs: list[str], hypervisor: str, maker: str) -> None:
    """A partition is a guest of the firmware; a virtual machine is a guest of its innermost control program."""
    lines = "".join(f"VM0{number} Control Program: {name}\n" for number, name in enumerate(programs))
    cpuinfo = b"vendor_id       : IBM/S390\nfeatures\t: esan3 zarch\n"
    detected = scan_virtualization(x86_tree() | {"proc/cpuinfo": cpuinfo, "proc/sysinfo": (SYSINFO + lines).encode()})
    assert (detected.guest, detected.hypervisor, detected.vendor, detected.type) == (True, hypervisor, maker, "full")


# --- containers


class Live(MemoryFiles):
    """Files of the running machine."""

    live = True


@pytest.mark.parametrize(
    ("path", "content", "runtime"),
    [
        ("run/systemd/container", b"podman\n", "podman"),
        ("run/secrets/kubernetes.io/serviceaccount/namespace", b"zonewise", "kubernetes"),
        (".dockerenv", b"", "docker"),
        ("run/.containerenv", b"", "podman"),
        ("proc/self/cgroup", b"0::/kubepods.slice/pod1/cri-containerd-1.scope\n", "kubernetes"),
        ("proc/self/cgroup", b"0::/user.slice\n", None),
    ],
)
def test_containers(path: str, content: bytes, runtime: str | None) -> None:
    """A runtime is recognised by its files in the running container's file system; a capture is in no container."""
    tree = x86_tree() | {path: content}
    for files, expected in ((Live(tree.items()), runtime), (MemoryFiles(tree.items()), None)):
        machine = Scanner(files, collectors=(virtualization.COLLECTOR,)).scan().machine
        assert machine.virtualization.container == expected


# --- invariants


def test_names_are_matched_at_their_start() -> None:
    """A name that contains another name does not match it."""
    assert by_dmi(Firmware(vendor="Not QEMU", product="The Xen of servers")) is None
    assert by_clocks(["xenon", "tsc"]) is None
    assert hypervisor_vendor("VMware") == "VMware"


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(x86_tree(GUEST, "QEMU", "Q35"))), DAMAGES, min_size=1, max_size=4))
def test_damage_makes_no_hypervisor(damages: dict[str, Damage]) -> None:
    """Whatever is damaged, a QEMU guest has QEMU or an unknown hypervisor, never another one."""
    scan = scan_tree(x86_tree(GUEST, "QEMU", "Q35"), damages)
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    assert scan.machine.virtualization.hypervisor in ("QEMU", None)


@given(st.text(max_size=20), st.text(max_size=20))
def test_any_names_are_accepted(vendor: str, product: str) -> None:
    """Any name in DMI is accepted."""
    by_dmi(Firmware(vendor=vendor, product=product))
