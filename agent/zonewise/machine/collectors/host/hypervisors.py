"""Recognizes hypervisors by the names that they leave in a guest: DMI, clocks, PCI devices, device tree.

Each source is a plain file in the guest. The CPUID leaf 0x40000000, which names a hypervisor on x86, is in no such
file. Names are those of lscpu if it has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from zonewise.machine.model.host import Firmware
    from zonewise.machine.model.pci import PciFunction

KVM, QEMU, VMWARE, MICROSOFT, XEN = "KVM", "QEMU", "VMware", "Microsoft", "Xen"
VIRTUALBOX, PARALLELS, BHYVE, APPLE, BOCHS = "VirtualBox", "Parallels", "bhyve", "Apple", "Bochs"
POWERVM, PR_SM = "PowerVM", "PR/SM"

_VENDORS = {VIRTUALBOX: "Oracle", POWERVM: "pHyp", PR_SM: "IBM"}


def hypervisor_vendor(hypervisor: str) -> str:
    """Return the maker of a hypervisor, as lscpu prints it after "Hypervisor vendor"."""
    if hypervisor.startswith("z/VM"):
        return "IBM"
    return KVM if hypervisor.startswith(KVM) else _VENDORS.get(hypervisor, hypervisor)


_DMI_NAMES = (
    ("KVM", KVM),
    ("OpenStack", KVM),
    ("KubeVirt", KVM),
    ("RHEV Hypervisor", KVM),
    ("oVirt", KVM),
    ("Nutanix AHV", KVM),
    ("Cloud Hypervisor", "Cloud Hypervisor"),
    ("VMware", VMWARE),
    ("VMW", VMWARE),
    ("innotek GmbH", VIRTUALBOX),
    ("VirtualBox", VIRTUALBOX),
    ("HVM domU", XEN),
    ("Xen", XEN),
    ("Bochs", BOCHS),
    ("Parallels", PARALLELS),
    ("BHYVE", BHYVE),
    ("Hyper-V", MICROSOFT),
    ("Apple Virtualization", APPLE),
    ("QEMU", QEMU),
)
"""Prefix of a name in DMI -> the hypervisor that sets it. QEMU comes last, since it appears beside more
specific names.
"""

_CLOUDS = (
    ("Amazon EC2", KVM),
    ("Google", KVM),
    ("Alibaba Cloud", KVM),
    ("Tencent Cloud", KVM),
    ("DigitalOcean", KVM),
    ("Hetzner", KVM),
)
"""Vendors that use the same names for machines with and without a hypervisor."""


def by_dmi(firmware: Firmware) -> str | None:
    """Return the hypervisor that made up the names in DMI; None if the names are those of hardware."""
    if firmware.vendor == "Microsoft Corporation" and firmware.product == "Virtual Machine":
        return MICROSOFT  # the same vendor makes laptops
    names = [firmware.product, firmware.vendor, firmware.board_vendor, firmware.bios_vendor, firmware.version]
    return _by_prefix(_DMI_NAMES, names)


def by_cloud(firmware: Firmware) -> str | None:
    """Return the hypervisor of the cloud that DMI names, for a machine that is known to run under a hypervisor."""
    return _by_prefix(_CLOUDS, [firmware.vendor])


def is_cloud_bare_metal(firmware: Firmware) -> bool:
    """Return whether DMI names an Amazon machine without a hypervisor ("m6g.metal")."""
    return firmware.vendor == "Amazon EC2" and ".metal" in (firmware.product or "")


def _by_prefix(prefixes: Iterable[tuple[str, str]], names: list[str | None]) -> str | None:
    return next(
        (hypervisor for prefix, hypervisor in prefixes if any((name or "").startswith(prefix) for name in names)), None
    )


_CLOCKS = {
    "kvm-clock": KVM,
    "hyperv_clocksource_tsc_page": MICROSOFT,
    "hyperv_clocksource_msr": MICROSOFT,
    "hyperv_clocksource": MICROSOFT,
    "xen": XEN,
}
"""arch/x86/kernel/kvmclock.c, drivers/clocksource/hyperv_timer.c, arch/x86/xen/time.c"""


def by_clocks(clocks: Iterable[str]) -> str | None:
    """Return the hypervisor that offers one of the clocks."""
    return next((_CLOCKS[clock] for clock in clocks if clock in _CLOCKS), None)


_DEVICE_TREE_NAMES = {"linux,kvm": KVM, "xen,xen": XEN, "vmware": VMWARE, "linux,dummy-virt": QEMU}


def by_device_tree(compatible: Iterable[str]) -> str | None:
    """Return the hypervisor that a device tree node is compatible with."""
    return next((_DEVICE_TREE_NAMES[name] for name in compatible if name in _DEVICE_TREE_NAMES), None)


class _Ids(NamedTuple):
    vendor: str
    device: str


_PCI_IDS = {
    _Ids("5853", "0001"): XEN,
    _Ids("15ad", "0405"): VMWARE,
    _Ids("15ad", "0710"): VMWARE,
    _Ids("80ee", "beef"): VIRTUALBOX,
    _Ids("80ee", "cafe"): VIRTUALBOX,
    _Ids("1414", "5353"): MICROSOFT,
}
"""Display and platform devices that exist in virtual machines only (pci.ids)."""


def by_pci(ids: Iterable[tuple[str | None, str | None]]) -> str | None:
    """Return the hypervisor that provides one of the devices, each given as (vendor, device) in hexadecimal."""
    return next((hypervisor for pair in ids if (hypervisor := _PCI_IDS.get(_ids(pair)))), None)


def _ids(pair: tuple[str | None, str | None]) -> _Ids:
    return _Ids(pair[0] or "", pair[1] or "")


def pci_ids(pci: Iterable[PciFunction]) -> list[tuple[str | None, str | None]]:
    """Return the vendor and device ids of the PCI functions."""
    return [(function.vendor, function.device) for function in pci]
