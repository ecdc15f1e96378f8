"""The collectors, in the order in which they run: each stands behind those whose facts it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.collectors import (
    accelerators,
    caches,
    core_kinds,
    cpus,
    dax,
    firmware,
    gpus,
    host,
    infiniband,
    links,
    locality,
    memory_modules,
    nics,
    pci,
    rdma,
    storage,
    topology,
    virtualization,
    zones,
)

if TYPE_CHECKING:
    from zonewise.machine.collector import Collector

COLLECTORS: tuple[Collector, ...] = (
    host.COLLECTOR,
    firmware.COLLECTOR,
    cpus.COLLECTOR,
    pci.COLLECTOR,
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
)
