"""The devices of a machine as instances of Node Feature Discovery's raw features.

Every device is an instance, in NFD's order (that of its directory listing), with NFD's attributes. Instances also have
attributes that NFD lacks and placement needs: `address`, `numa_node`, `driver`, the PCI Express link, the RDMA device
and firmware of a NIC. The current speed of a link is left out: idle devices lower it, and each change would cause a
write. NFD has no `rdma.device`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.physical_nics import virtual_functions
from zonewise.objects.feature_values import known_attributes
from zonewise.objects.uniform_value import uniform_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise.machine.model.host import BlockDevice
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic
    from zonewise.machine.model.pci import PciFunction
    from zonewise.objects.feature_values import Attributes, Values

_PAIRS = "veth"
"""The kind of interface with which container networks connect pods."""


def device_features(machine: Machine, *, with_pods: bool) -> dict[str, tuple[Attributes, ...]]:
    """Return the instance features by name.

    Interfaces that come and go with pods (veth pairs and virtual functions) are included only if `with_pods` is set.
    """
    nics = [nic for nic in machine.nics if nic.presence == "netdev" and (with_pods or not _is_of_pods(nic))]
    firmware = {device.name: device.firmware for device in machine.infiniband}
    return {
        "memory.nv": _instances(
            {"name": nvdimm.name, "devtype": nvdimm.type, "mode": nvdimm.mode} for nvdimm in machine.nvdimms
        ),
        "network.device": _instances(
            _interface(nic) | _hardware(nic, firmware) for nic in _by_name(nics) if not nic.virtual
        ),
        "network.virtual": _instances(_interface(nic) for nic in _by_name(nics) if nic.virtual),
        "pci.device": _instances(map(_function, sorted(machine.pci, key=lambda function: function.address))),
        "rdma.device": _instances(_rdma_devices(machine, with_pods=with_pods)),
        "storage.block": _instances(map(_block_device, sorted(machine.block_devices, key=lambda device: device.name))),
        "usb.device": _instances(_usb_interfaces(machine)),
    }


def _instances(instances: Iterable[Mapping[str, object]]) -> tuple[Attributes, ...]:
    return tuple(known_attributes(instance) for instance in instances)


def _is_of_pods(nic: Nic) -> bool:
    return nic.kind == _PAIRS or nic.physical_function is not None


def _by_name(nics: list[Nic]) -> list[Nic]:
    return sorted(nics, key=lambda nic: nic.name)


def _interface(nic: Nic) -> Values:
    return {"name": nic.name, "operstate": nic.state, "speed": nic.printed_speed, "mtu": nic.mtu}


def _hardware(nic: Nic, firmware: Mapping[str, str | None]) -> Values:
    return {
        "sriov_numvfs": nic.sriov and nic.sriov.enabled,
        "sriov_totalvfs": nic.sriov and nic.sriov.total,
        "address": nic.address,
        "numa_node": nic.zone,
        "driver": nic.driver,
        "firmware": firmware.get(nic.rdma or ""),
        "link_layer": nic.link_layer,
        "rdma": nic.rdma,
    }


def _rdma_devices(machine: Machine, *, with_pods: bool) -> Iterator[Values]:
    functions = {function.address: function for function in machine.pci}
    virtual = virtual_functions(machine)
    for device in sorted(machine.infiniband, key=lambda device: device.name):
        function = functions.get(device.address or "")
        if device.address in virtual and not with_pods:
            continue
        yield {
            "name": device.name,
            "address": device.address,
            "numa_node": device.zone,
            "driver": function and function.driver,
            "firmware": device.firmware,
            "board": device.board,
            "link_layer": uniform_value(port.link_layer for port in device.ports),
            "software": device.software,
        }


def _function(function: PciFunction) -> Values:
    link = function.link
    return {
        "class": function.pci_class,
        "vendor": function.vendor,
        "device": function.device,
        "subsystem_vendor": function.subsystem_vendor,
        "subsystem_device": function.subsystem_device,
        "sriov_totalvfs": function.sriov and function.sriov.total,
        "iommu_group/type": function.iommu_type,
        "iommu/intel-iommu/version": function.iommu_version,
        "address": function.address,
        "numa_node": function.zone,
        "driver": function.driver,
        "link_width": link and link.width,
        "max_link_width": link and link.max_width,
        "max_link_speed": None if link is None or link.max_speed_gts is None else f"{link.max_speed_gts:g}",
    }


def _block_device(device: BlockDevice) -> Values:
    return {
        "name": device.name,
        "dax": None if device.dax is None else int(device.dax),
        "rotational": None if device.rotational is None else int(device.rotational),
        "nr_zones": device.zone_count,
        "zoned": device.zoned,
        "address": device.address,
        "numa_node": device.zone,
    }


def _usb_interfaces(machine: Machine) -> Iterator[Values]:
    for device in sorted(machine.usb, key=lambda device: device.name):
        for usb_class in device.classes:
            yield {"name": device.name, "class": usb_class, "vendor": device.vendor, "device": device.device}
