"""One observation of a machine, from all readers."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from zonewise.health.readers.amd_gpus import read_ras
from zonewise.health.readers.balloons import has_balloon
from zonewise.health.readers.cpu_state import read_cpus
from zonewise.health.readers.edac import meminfo_bytes, read_memory
from zonewise.health.readers.hot_plugged import hot_plugged_nics
from zonewise.health.readers.netdevs import read_nics
from zonewise.health.readers.nvme_drives import read_drives
from zonewise.health.readers.nvml_gpus import gpu_readings
from zonewise.health.readers.pci_links import attainable_links, read_addresses, read_links, upstream_ports
from zonewise.health.readers.rdma_ports import read_ports
from zonewise.health.types import HardwareObservation
from zonewise.machine.physical_nics import physical_netdevs, physical_rdma, virtual_functions
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from zonewise.health.types import DeviceEvent
    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.nvml.facts import NvmlFacts

_BOOT_ID = "proc/sys/kernel/random/boot_id"
_MACHINE_IDS = (
    "sys/class/dmi/id/product_uuid",
    *(f"proc/device-tree/{name}" for name in ("vm,uuid", "system-id", "serial-number")),
)
"""Files of the firmware's identifier: SMBIOS, and device trees of guests and of servers."""
_DRIVER = "nvidia"


def drives_gpus(machine: Machine) -> bool:
    """Return whether NVIDIA's driver drives a GPU, so that NVML can be queried."""
    return any(gpu.driver == _DRIVER for gpu in machine.gpus)


def read_boot_id(files: Files) -> str:
    """Return the id of the boot; empty if it cannot be read."""
    return Reader(files).text(_BOOT_ID) or ""


def read_machine_id(files: Files) -> str:
    """Return a digest of the firmware's identifier of the machine; empty if none can be read."""
    read = Reader(files)
    known = next(filter(None, map(read.text, _MACHINE_IDS)), None)
    # only root may read the identifier, whereas everybody may read the state
    return "" if known is None else blake2b(known.encode(), digest_size=16, person=b"zonewise-health").hexdigest()


def observe(
    files: Files,
    machine: Machine,
    facts: NvmlFacts | None,
    events: tuple[DeviceEvent, ...],
    now: float,
) -> HardwareObservation:
    """Return what the machine's sources show now. `facts` is None if NVML was not queried."""
    read = Reader(files)
    gpu_addresses = frozenset(gpu.address for gpu in machine.gpus if gpu.address is not None)
    nic_addresses = physical_netdevs(machine)  # not on USB: a BMC's NIC has no carrier while the BMC restarts
    rdma = [device for device in physical_rdma(machine) if device.address is not None]
    on_bus = read_addresses(read)
    expected = (gpu_addresses - virtual_functions(machine)) | nic_addresses | {device.address or "" for device in rdma}
    nics = (nic for nic in machine.nics if nic.address in nic_addresses and nic.presence == "netdev")
    switch_ports = upstream_ports(machine, expected)
    gpus = gpu_readings(facts)
    memory = read_memory(read)
    cpus, memory_total = read_cpus(read, machine), meminfo_bytes(read, "MemTotal")
    silence = {
        "pci": on_bus is None and bool(expected),
        "nvml": drives_gpus(machine) and gpus is None,
        "memory": memory_total is None,
        "cpu": cpus.online is None,
    }
    return HardwareObservation(
        now,
        read_boot_id(files),
        gpus,
        on_bus,
        gpu_addresses,
        expected - gpu_addresses - hot_plugged_nics(machine),
        frozenset(gpu.address for gpu in machine.gpus if gpu.address is not None and gpu.state == "lost"),
        read_links(read, sorted(expected | switch_ports)),
        read_ports(read, [device.name for device in rdma]),
        read_nics(read, ((nic.name, nic.address or "") for nic in nics)),
        memory,
        cpus,
        None if has_balloon(read) else memory_total,
        events,
        frozenset(reader for reader, is_silent in silence.items() if is_silent),
        read_machine_id(files),
        read_ras(read, machine),
        switch_ports,
        attainable_links(machine, expected | switch_ports),
        read_drives(read),
    )
