"""The collectors by subject, in the order in which they run: each collector runs after those whose facts it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collectors.cpu import caches, core_kinds, cpus, power, topology
from zonewise.machine.collectors.gpu import gpus
from zonewise.machine.collectors.host import firmware, kernel, os_release, security, usb, virtualization
from zonewise.machine.collectors.memory import dax, memory_modules, nvdimm, swap, zones
from zonewise.machine.collectors.network import infiniband, nics, rdma
from zonewise.machine.collectors.pci import accelerators, functions, links, locality, storage

if TYPE_CHECKING:
    from zonewise.machine.collector import Collector

COLLECTORS: tuple[Collector, ...] = (
    kernel.COLLECTOR,
    firmware.COLLECTOR,
    cpus.COLLECTOR,
    functions.COLLECTOR,
    virtualization.COLLECTOR,
    dax.COLLECTOR,
    zones.COLLECTOR,
    memory_modules.COLLECTOR,
    topology.COLLECTOR,
    caches.COLLECTOR,
    core_kinds.COLLECTOR,
    locality.COLLECTOR,
    gpus.COLLECTOR,
    nics.COLLECTOR,
    infiniband.COLLECTOR,
    rdma.COLLECTOR,
    storage.COLLECTOR,
    accelerators.COLLECTOR,
    links.COLLECTOR,
    os_release.COLLECTOR,
    power.COLLECTOR,
    security.COLLECTOR,
    swap.COLLECTOR,
    nvdimm.COLLECTOR,
    usb.COLLECTOR,
)
