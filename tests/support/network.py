"""Small trees of netdevs and RDMA devices with the layout of sysfs, and the results of the network collectors."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.network import infiniband, nics, rdma
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.pci import PciFunction, Sriov

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from zonewise.machine.collector import Collector, Peek
    from zonewise.machine.discover import Scan
    from zonewise.machine.files import Files
    from zonewise.machine.model.network import Nic, RdmaDevice
    from zonewise.machine.reader import Reader

Tree = dict[str, bytes | str | None]

GUID = "a088:c203:0056:8a44"
LINK_LOCAL = f"fe80:0000:0000:0000:{GUID}"
UNUSED = "0000:0000:0000:0000:0000:0000:0000:0000"


class Failing:
    """Files some of which fail to be read, with the errors of the driver."""

    live = False

    def __init__(self, files: Files, errors: Mapping[str, int]) -> None:
        self._files = files
        self._errors = errors

    def read(self, path: str) -> bytes:
        if number := self._errors.get(path):
            raise OSError(number, os.strerror(number), path)
        return self._files.read(path)

    def names(self, path: str) -> list[str]:
        return self._files.names(path)

    def link(self, path: str) -> str:
        return self._files.link(path)


class NetworkScan(NamedTuple):
    """The results of a scan, by name."""

    scan: Scan
    nics: dict[str, Nic]
    rdma: dict[str, RdmaDevice]

    @property
    def machine(self) -> Machine:
        return self.scan.machine

    @property
    def problems(self) -> list[str]:
        """Every problem as one line."""
        return [f"{problem.path}: {problem.problem}" for problem in self.scan.machine.problems]


def find(tree: Tree, known: Machine | None = None, errors: Mapping[str, int] | None = None) -> NetworkScan:
    """Scan a tree, given the results of other collectors; `errors`: errno values for files whose reading fails."""
    files: Files = Failing(MemoryFiles(tree.items()), errors or {})
    scan = Scanner(files, explain=True, collectors=network_collectors(known or Machine())).scan()
    machine = scan.machine
    return NetworkScan(
        scan, {nic.name: nic for nic in machine.nics}, {device.name: device for device in machine.infiniband}
    )


def network_collectors(known: Machine) -> tuple[Collector, ...]:
    """Return the network collectors, after a collector that provides the known values."""
    fields = ("pci", "zones", "kernel")

    def collect(_read: Reader, machine: Machine) -> Machine:
        return machine._replace(**{field: getattr(known, field) for field in fields})

    def volatile(_peek: Peek) -> Hashable:
        return None

    given = nics.COLLECTOR._replace(name="given", provides=fields, needs=(), collect=collect, volatile=volatile)
    return given, nics.COLLECTOR, infiniband.COLLECTOR, rdma.COLLECTOR


def with_pci(*functions: PciFunction) -> Machine:
    """Return a machine with these known PCI functions."""
    return Machine(pci=functions)


def pci_function(
    address: str,
    *,
    pci_class: str = "0200",
    driver: str | None = "mlx5_core",
    zone: int | None = 1,
    sriov: Sriov | None = None,
    physical: str | None = None,
) -> PciFunction:
    """Return a NIC as the PCI collector describes it."""
    return PciFunction(
        address=address,
        pci_class=pci_class,
        class_full=f"{pci_class}00",
        vendor="15b3",
        device="1021",
        subsystem_vendor="15b3",
        subsystem_device="0001",
        driver=driver,
        zone=zone,
        zone_source="numa_node",
        cpus=None,
        parent=None,
        root="pci0000:3a",
        link=None,
        iommu_group=None,
        sriov=sriov,
        physical_function=physical,
    )


def place_of(address: str) -> str:
    """Return the path of a PCI function in the device tree."""
    return f"sys/devices/pci0000:3a/0000:3a:01.0/{address}"


def function_tree(address: str, driver: str = "mlx5_core") -> Tree:
    """Return the directory of a PCI function."""
    place = place_of(address)
    return {
        f"sys/bus/pci/devices/{address}": "../../../" + place.removeprefix("sys/"),
        f"{place}/vendor": b"0x15b3\n",
        f"{place}/driver": f"../../../../bus/pci/drivers/{driver}",
        f"sys/bus/pci/drivers/{driver}": None,
    }


def lines(directory: str, values: Mapping[str, object]) -> Tree:
    """Return attributes as the kernel prints them."""
    return {f"{directory}/{name}": f"{value}\n".encode() for name, value in values.items()}


def netdev(name: str, owner: str = "sys/devices/virtual", **attributes: object) -> Tree:
    """Return a netdev owned by a device, or a virtual one; an attribute that is None is absent."""
    directory = f"{owner}/net/{name}"
    values: dict[str, object] = {
        "operstate": "up",
        "mtu": 1500,
        "type": 1,
        "address": "94:6d:ae:00:00:01",
        "ifindex": 2,
        "iflink": 2,
        "uevent": f"INTERFACE={name}",
        "speed": 100000,
        "duplex": "full",
    }
    tree: Tree = {f"sys/class/net/{name}": "../../" + directory.removeprefix("sys/")}
    if owner != "sys/devices/virtual":
        values["dev_port"] = 0
        tree[f"{directory}/device"] = "../../../" + owner.rpartition("/")[2]
    values |= attributes
    return tree | lines(directory, {key: value for key, value in values.items() if value is not None})


def loopback() -> Tree:
    """Return the netdev that every machine has."""
    return netdev("lo", type=772, address="00:00:00:00:00:00", speed=None, duplex=None)


def rdma_device(name: str, owner: str = "sys/devices/virtual", **attributes: object) -> Tree:
    """Return an RDMA device without ports; an attribute that is None is absent."""
    directory = f"{owner}/infiniband/{name}"
    values: dict[str, object] = {
        "node_guid": GUID,
        "sys_image_guid": GUID,
        "node_type": "1: CA",
        "fw_ver": "28.41.1000",
        "hca_type": "MT4129",
        "board_id": "MT_0000000838",
        **attributes,
    }
    tree: Tree = {f"sys/class/infiniband/{name}": "../../" + directory.removeprefix("sys/"), f"{directory}/ports": None}
    if owner != "sys/devices/virtual":
        tree[f"{directory}/device"] = "../../../" + owner.rpartition("/")[2]
    return tree | lines(directory, {key: value for key, value in values.items() if value is not None})


def port_tree(device: str, owner: str = "sys/devices/virtual", number: int = 1, /, **attributes: object) -> Tree:
    """Return a port of an RDMA device; by default InfiniBand, up, and with one GID."""
    values: dict[str, object] = {
        "state": "4: ACTIVE",
        "phys_state": "5: LinkUp",
        "rate": "400 Gb/sec (4X NDR)",
        "lid": "0x1f",
        "sm_lid": "0x1",
        "link_layer": "InfiniBand",
        "gids/0": LINK_LOCAL,
        **attributes,
    }
    directory = f"{owner}/infiniband/{device}/ports/{number}"
    return lines(directory, {key: value for key, value in values.items() if value is not None})


def gid_tree(directory: str, entries: Mapping[int, tuple[str, str, str]]) -> Tree:
    """Return the GID table of a RoCE port: GID, type and netdev by index."""
    tree: Tree = {}
    for number, (gid, kind, name) in entries.items():
        tree |= lines(directory, {f"gids/{number}": gid})
        tree |= lines(directory, {f"gid_attrs/types/{number}": kind, f"gid_attrs/ndevs/{number}": name})
    return tree


def unused(directory: str, numbers: range) -> tuple[Tree, dict[str, int]]:
    """Return unused entries of a GID table, and the errors from reading them."""
    paths = [f"{directory}/{part}/{n}" for n in numbers for part in ("gids", "gid_attrs/types", "gid_attrs/ndevs")]
    return dict.fromkeys(paths, b""), dict.fromkeys(paths, errno.EINVAL)
