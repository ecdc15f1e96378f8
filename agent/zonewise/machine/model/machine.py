"""The machine: all facts of discovery, as one immutable value."""

from typing import NamedTuple

from zonewise.machine.model.cpu import (
    Cache,
    Cluster,
    Core,
    CoreKind,
    Cpus,
    Die,
    Group,
    Mainframe,
    Model,
    Package,
)
from zonewise.machine.model.gpu import Gpu
from zonewise.machine.model.host import (
    Accelerator,
    BlockDevice,
    DaxDevice,
    Firmware,
    Kernel,
    MemoryModule,
    Nvdimm,
    Power,
    Security,
    UsbDevice,
    Virtualization,
)
from zonewise.machine.model.network import Nic, Rdma, RdmaDevice
from zonewise.machine.model.pci import Link, PciFunction
from zonewise.machine.model.problem import Problem
from zonewise.machine.model.zone import Zone
from zonewise_common.k8s.cpuset import EMPTY

X86 = ("x86_64", "i686", "i386")
"""The architectures of x86 processors."""


class Machine(NamedTuple):
    """A machine. Lists are in a canonical order, so that equal machines have equal values."""

    architecture: str | None = None
    """Name as uname prints it: "x86_64", "aarch64", "ppc64le", "s390x"."""
    hostname: str | None = None
    product: str | None = None
    """Vendor and product name from the firmware."""
    kernel: Kernel = Kernel(None)
    firmware: Firmware = Firmware()
    virtualization: Virtualization = Virtualization(None)
    cpus: Cpus = Cpus(EMPTY, EMPTY)
    model: Model = Model()
    byte_order: str | None = None
    """"little" or "big"."""
    mainframe: Mainframe | None = None
    """Facts that only s390 machines have."""
    packages: tuple[Package, ...] = ()
    dies: tuple[Die, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    groups: tuple[Group, ...] = ()
    cores: tuple[Core, ...] = ()
    core_kinds: tuple[CoreKind, ...] = ()
    caches: tuple[Cache, ...] = ()
    zones: tuple[Zone, ...] = ()
    memory: int | None = None
    """Bytes of RAM that the kernel manages, without device memory."""
    memory_modules: tuple[MemoryModule, ...] = ()
    pci: tuple[PciFunction, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[Nic, ...] = ()
    infiniband: tuple[RdmaDevice, ...] = ()
    rdma: Rdma = Rdma(None, None, None)
    block_devices: tuple[BlockDevice, ...] = ()
    dax_devices: tuple[DaxDevice, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    dma_engines: tuple[Accelerator, ...] = ()
    """Engines that copy memory for other devices: Intel's I/OAT and Data Streaming Accelerator."""
    links: tuple[Link, ...] = ()
    os_release: dict[str, str] | None = None
    """The distribution, from /etc/os-release: "ID": "debian"."""
    power: Power = Power()
    security: Security = Security()
    swap: int | None = None
    """Bytes of all swap areas in use; 0 if there are none."""
    nvdimms: tuple[Nvdimm, ...] = ()
    usb: tuple[UsbDevice, ...] = ()
    problems: tuple[Problem, ...] = ()
