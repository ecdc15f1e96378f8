"""Whether the machine is a guest, of which hypervisor, and whether it could be a host itself.

The rules are lscpu's if it has one for a plain file, else those of systemd-detect-virt(1). On x86 the processor flag
`hypervisor` decides. Elsewhere only traces of a hypervisor are visible, so a machine without traces is not proven to be
physical.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector
from zonewise.machine.collectors.host import hypervisors
from zonewise.machine.model.host import Virtualization
from zonewise.machine.model.machine import X86

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

CLOCKS = "sys/devices/system/clocksource/clocksource0/available_clocksource"
SYSINFO = "proc/sysinfo"
XEN_CAPABILITIES = "proc/xen/capabilities"
PCI_LIST = "proc/bus/pci/devices"

_EXTENSIONS = {"vmx": "VT-x", "svm": "AMD-V"}
# drivers/pci/proc.c show_device(): bus, device and function, then vendor and device
_PCI_LINE = re.compile(rb"^[0-9a-f]{4}\t([0-9a-f]{4})([0-9a-f]{4})\t", re.MULTILINE)
_CONTROL_PROGRAM = re.compile(r"^VM\d\d Control Program: +(.*?) *$", re.MULTILINE)
_XEN_PV = (1 << 5, 1 << 3 | 1 << 8)
"""include/xen/interface/features.h: page tables of PV guests; supervisor mode and callback vector of PVH ones."""

_CGROUPS = {
    b"kubepods": "kubernetes",
    b"docker": "docker",
    b"libpod": "podman",
    b"containerd": "containerd",
    b"/lxc": "lxc",
}
_MARKS = (
    ("run/secrets/kubernetes.io/serviceaccount/namespace", "kubernetes"),
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
)


def _collect(read: Reader, machine: Machine) -> Machine:
    guest, hypervisor, kind = _guest(read, machine)
    extensions = next((name for flag, name in _EXTENSIONS.items() if flag in machine.model.flags), None)
    read.source("virtualization.extensions", "proc/cpuinfo", extensions, "the flags vmx and svm")
    return machine._replace(
        virtualization=Virtualization(
            guest,
            hypervisor,
            kind,
            extensions,
            _container(read) if read.files.live else None,
            hypervisor and hypervisors.hypervisor_vendor(hypervisor),
        )
    )


def _guest(read: Reader, machine: Machine) -> tuple[bool | None, str | None, str | None]:
    """Return whether the machine is a guest, its hypervisor, and the type of the virtualization ("full" or "para")."""
    text = read.text(SYSINFO) if machine.architecture in ("s390x", "s390", None) else None
    if text is not None:
        return True, _mainframe_hypervisor(read, text), "full"
    if (machine.architecture or "").startswith("ppc"):
        return _detect_on_power(read, machine)
    return _detect_by_signs(read, machine)


def _mainframe_hypervisor(read: Reader, text: str) -> str:
    """Return the hypervisor below the innermost level of an s390 machine: an LPAR is a guest of the
    firmware's PR/SM.
    """
    match = _CONTROL_PROGRAM.search(text)
    name = " ".join(match[1].split()) if match else hypervisors.PR_SM
    read.source("virtualization", SYSINFO, match and match[0], "the first control program, or PR/SM without one")
    return name


def _detect_on_power(read: Reader, machine: Machine) -> tuple[bool | None, str | None, str | None]:
    """Return the hypervisor of a POWER machine; all guests have the platform pSeries."""
    firmware = machine.firmware
    read.source("virtualization", "proc/cpuinfo", firmware.platform, "the platform PowerNV is bare metal")
    if firmware.platform == "PowerNV" or "ibm,powernv" in firmware.compatible:
        return False, None, None
    if firmware.platform != "pSeries":
        return None, None, None
    emulated = "qemu" in (firmware.product or "").lower() or "qemu,pseries" in firmware.compatible
    return True, hypervisors.KVM if emulated else hypervisors.POWERVM, "para"


def _detect_by_signs(read: Reader, machine: Machine) -> tuple[bool | None, str | None, str | None]:
    flags = machine.model.flags
    flagged = "hypervisor" in flags if flags and machine.architecture in X86 else None
    sign = next(_signs(read, machine), None)
    hypervisor, path = sign or (None, "proc/cpuinfo")
    if hypervisor is None and flagged:
        hypervisor = hypervisors.by_cloud(machine.firmware)
    rule = "the flag hypervisor, and the names that a hypervisor leaves in its guests"
    read.source("virtualization", path, hypervisor, rule)
    if hypervisor == hypervisors.XEN and b"control_d" in (read.raw(XEN_CAPABILITIES) or b""):
        return False, hypervisor, None  # dom0 drives the hardware
    if hypervisor is not None:
        return True, hypervisor, _type(read, hypervisor)
    if flagged is None and machine.firmware.vendor == "Amazon EC2":
        metal = hypervisors.is_cloud_bare_metal(machine.firmware)
        return not metal, None if metal else hypervisors.KVM, None if metal else "full"
    return flagged, None, "full" if flagged else None


def _signs(read: Reader, machine: Machine) -> Iterator[tuple[str, str]]:
    """Yield each hypervisor that something names, with the file that names it, the surest first."""
    clocks = (read.text(CLOCKS) or "").split()
    by_clock, by_dmi = hypervisors.by_clocks(clocks), hypervisors.by_dmi(machine.firmware)
    if by_dmi == hypervisors.QEMU and by_clock is not None:
        by_dmi = None  # DMI has QEMU's names; the clock names the hypervisor that runs it
    if "microsoft" in (machine.kernel.release or "").lower():
        yield hypervisors.MICROSOFT, "proc/sys/kernel/osrelease"  # the kernels of WSL
    if by_dmi is not None:
        yield by_dmi, "sys/class/dmi/id"
    if (read.text("sys/hypervisor/type") or "") == "xen":
        yield hypervisors.XEN, "sys/hypervisor/type"
    if by_clock is not None:
        yield by_clock, CLOCKS
    yield from _device_signs(read, machine)


def _device_signs(read: Reader, machine: Machine) -> Iterator[tuple[str, str]]:
    node = "proc/device-tree/hypervisor/compatible"
    names = (read.raw(node) or b"").decode("ascii", "replace").split("\0")
    if by_tree := hypervisors.by_device_tree((*names, *machine.firmware.compatible)):
        yield by_tree, node
    ids = hypervisors.pci_ids(machine.pci) or _listed_ids(read)
    if by_pci := hypervisors.by_pci(ids):
        yield by_pci, "sys/bus/pci/devices" if machine.pci else PCI_LIST


def _listed_ids(read: Reader) -> list[tuple[str | None, str | None]]:
    """Return vendor and device ids of the PCI functions, from the older of the two lists."""
    content = read.raw(PCI_LIST) or b""
    ids = _PCI_LINE.findall(content)
    if content and (not ids or not content.endswith(b"\n")):
        what = "is truncated" if ids else "names no PCI function"
        read.problem(PCI_LIST, what, "whether a function belongs to a hypervisor is unknown")
    return [(vendor.decode(), device.decode()) for vendor, device in ids]


def _type(read: Reader, hypervisor: str) -> str:
    """Return "para" for a Xen guest whose kernel does part of the hypervisor's work, else "full"."""
    if hypervisor != hypervisors.XEN:
        return "full"
    guest_type = read.text("sys/hypervisor/guest_type")  # since Linux 4.13
    if guest_type is not None:
        return "full" if guest_type == "HVM" else "para"
    features = read.integer("sys/hypervisor/properties/features", base=16) or 0
    return "para" if any(features & mask == mask for mask in _XEN_PV) else "full"


def _container(read: Reader) -> str | None:
    """Return the runtime of the container that we run in, by its traces in the file system; None if there is no
    container.
    """
    container = read.text("run/systemd/container")
    if container is not None:
        return container
    for path, runtime in _MARKS:
        if read.raw(path) is not None:
            return runtime
    content = read.raw("proc/self/cgroup") or b""
    return next((runtime for part, runtime in _CGROUPS.items() if part in content), None)


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: a machine does not become a guest while it runs."""
    return None


COLLECTOR = Collector(
    name="virtualization",
    provides=("virtualization",),
    needs=("architecture", "kernel", "firmware", "model", "pci"),
    collect=_collect,
    volatile=_volatile,
)
