"""The machine as Node Feature Discovery's raw features: the input of its rules and labels.

A feature has a name "domain.feature". It is a set of names (a flag feature), names with values (attributes), or a list
of such (instances); NFD's api/nfd/v1alpha1/types.go, and source/*/*.go for each. An unknown feature is absent.

Some features are not written, so that the features do not depend on the pods that come and go:

- network.virtual, except interfaces that an administrator configures (bonds, bridges, VLANs);
- virtual functions in network.device;
- repetitions in any list of instances, which no rule can tell apart.

Not read, hence absent: kernel.enabledmodule, the DAX and zone attributes of storage.block, cpu.rdt's
RDTL3CA_NUM_CLOSID, serial numbers of USB devices.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from zonewise.objects.cpu_features import cpu_attributes
from zonewise.objects.cpuid import cpuid_features

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise.machine.model.host import Firmware
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic
    from zonewise.machine.model.pci import PciFunction

Attributes = dict[str, str]
Values = dict[str, object]
"""By name; None is unknown."""

_VERSION = re.compile(r"(?P<major>\d+)(\.(?P<minor>\d+))?(\.(?P<revision>\d+))?(-.*)?")
_VERSION_ID = re.compile(r"(?P<major>\d+)(\.(?P<minor>\d+))?(\..*)?")
_CONFIGURED_KINDS = ("bond", "bridge", "vlan")

_DMI_NAMES = {
    "bios_date": "bios_date",
    "bios_vendor": "bios_vendor",
    "bios_version": "bios_version",
    "board_name": "board",
    "board_vendor": "board_vendor",
    "board_version": "board_version",
    "chassis_type": "chassis_type",
    "chassis_vendor": "chassis_vendor",
    "chassis_version": "chassis_version",
    "product_name": "product",
    "product_version": "version",
    "sys_vendor": "vendor",
}
"""Attribute of DMI -> field of Firmware."""


class Features(NamedTuple):
    """Raw features by name; empty ones are absent."""

    flags: dict[str, tuple[str, ...]]
    attributes: dict[str, Attributes]
    instances: dict[str, tuple[Attributes, ...]]


def node_features(machine: Machine) -> Features:
    """Return all known features in canonical order: the same machine gives the same value."""
    flags = {
        "cpu.cpuid": tuple(cpuid_features(machine.architecture, machine.model)),
        "kernel.loadedmodule": machine.kernel.modules or (),
    }
    attributes = {
        **cpu_attributes(machine),
        **_kernel(machine),
        **_memory(machine),
        "system.dmiid": _dmi(machine.firmware),
        "system.osrelease": _os_release(machine.os_release or {}),
    }
    return Features(
        {name: elements for name, elements in sorted(flags.items()) if elements},
        {name: elements for name, values in sorted(attributes.items()) if (elements := _known(values))},
        {name: elements for name, elements in sorted(_instances(machine).items()) if elements},
    )


def _known(values: Mapping[str, object]) -> Attributes:
    """Return values as NFD writes them (Go's %v), sorted by name and without unknown ones."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in sorted(values.items())
        if value is not None
    }


# --- kernel, memory, system


def _kernel(machine: Machine) -> dict[str, Values]:
    kernel, security = machine.kernel, machine.security
    return {
        "kernel.config": {name: value for name, value in (kernel.config or {}).items() if value != "n"},
        "kernel.kvm": {"enabled": security.kvm},
        "kernel.selinux": {"enabled": security.selinux},
        "kernel.version": {} if kernel.release is None else _version(kernel.release),
    }


def _version(release: str) -> Values:
    full = re.sub(r"[^-A-Za-z0-9_.]", "_", release).strip("-_.")
    parts = _VERSION.fullmatch(full)
    return {"full": full, **(parts.groupdict() if parts else {})}


def _memory(machine: Machine) -> dict[str, Values]:
    zones, page_counts = machine.zones, Counter[str]()
    for zone in zones:
        page_counts.update(zone.hugepages)
    counts = {f"hugepages-{size}": count for size, count in page_counts.items()}
    return {
        "memory.hugepages": {"enabled": any(page_counts.values()), **counts} if page_counts else {},
        "memory.numa": {"is_numa": len(zones) > 1, "node_count": len(zones)} if zones else {},
        "memory.swap": {"enabled": None if machine.swap is None else machine.swap > 0},
    }


def _dmi(firmware: Firmware) -> Values:
    return {name: getattr(firmware, field) for name, field in _DMI_NAMES.items()}


def _os_release(fields: Mapping[str, str]) -> Values:
    parts = _VERSION_ID.fullmatch(fields.get("VERSION_ID", ""))
    return {**fields, **({f"VERSION_ID.{name}": text for name, text in parts.groupdict().items()} if parts else {})}


# --- devices


def _instances(machine: Machine) -> dict[str, tuple[Attributes, ...]]:
    nics = [nic for nic in machine.nics if nic.presence == "netdev"]
    own = [nic for nic in nics if not nic.virtual and nic.physical_function is None]
    return {
        "memory.nv": _distinct(
            {"name": nvdimm.name, "devtype": nvdimm.type, "mode": nvdimm.mode} for nvdimm in machine.nvdimms
        ),
        "network.device": _distinct({**_nic(nic), **_sriov(nic)} for nic in own),
        "network.virtual": _distinct(_nic(nic) for nic in nics if nic.virtual and nic.kind in _CONFIGURED_KINDS),
        "pci.device": _distinct(_function(function) for function in machine.pci),
        "storage.block": _distinct(
            {"name": drive.name, "rotational": None if drive.rotational is None else int(drive.rotational)}
            for drive in machine.block_devices
        ),
        "usb.device": _distinct(
            {"class": kind, "vendor": device.vendor, "device": device.device}
            for device in machine.usb
            for kind in device.classes
        ),
    }


def _nic(nic: Nic) -> Values:
    return {"name": nic.name, "operstate": nic.state, "speed": nic.speed_mbps, "mtu": nic.mtu}


def _sriov(nic: Nic) -> Values:
    return {} if nic.sriov is None else {"sriov_numvfs": nic.sriov.enabled, "sriov_totalvfs": nic.sriov.total}


def _function(function: PciFunction) -> Values:
    return {
        "class": function.pci_class,
        "vendor": function.vendor,
        "device": function.device,
        "subsystem_vendor": function.subsystem_vendor,
        "subsystem_device": function.subsystem_device,
        "sriov_totalvfs": None if function.sriov is None else function.sriov.total,
    }


def _distinct(instances: Iterable[Mapping[str, object]]) -> tuple[Attributes, ...]:
    """Return instances in order, each once, without unknown values."""
    unique = {tuple(_known(instance).items()) for instance in instances}
    return tuple(dict(instance) for instance in sorted(unique))
