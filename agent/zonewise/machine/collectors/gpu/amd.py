"""Facts of AMD GPUs from the amdgpu driver: from each PCI function's directory and from the compute
driver's topology.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.gpu.amd_ras import AMDGPU, MEMORY_BLOCK, error_counts, is_asleep, ras_files
from zonewise.machine.collectors.gpu.drm import KFD, drm_numbers, module_version, natural_number
from zonewise.machine.collectors.gpu.kfd import KfdGpu, kfd_gpus, xgmi_links
from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.model.gpu import Gpu, Health, Partition, XgmiPeer

if TYPE_CHECKING:
    from zonewise.machine.reader import Reader

_PLATFORM = "sys/devices/platform"
_PARTITION_DEVICE = re.compile(r"amdgpu_xcp_\d{1,4}")
_RENDER_NODE = re.compile(r"renderD(\d{1,4})")
_UUID_RULE = "GPU- and the unique id in 16 hexadecimal digits, as in ROCm"
_FUNCTION = re.compile(r"\.[0-7]$")

_WITNESSES = {
    "product_name": "product_number",
    "mem_info_vram_total": "mem_info_vram_used",
    "current_compute_partition": "available_compute_partition",
}
"""Attributes that not every GPU has, with the attributes that exist if and only if they do."""

_ARCHITECTURES = {
    "gfx90a": "cdna2",
    "gfx908": "cdna",
    "gfx94": "cdna3",
    "gfx950": "cdna4",
    "gfx9": "gcn5",
    "gfx101": "rdna",
    "gfx103": "rdna2",
    "gfx110": "rdna3",
    "gfx115": "rdna3.5",
    "gfx120": "rdna4",
}
"""The architecture by the longest matching prefix of the instruction set: LLVM, User Guide for AMDGPU Backend,
Processors."""


class _Compute(NamedTuple):
    """The nodes of the compute driver's topology that form one GPU: a single node, or its partitions."""

    nodes: list[KfdGpu]

    @property
    def first(self) -> KfdGpu:
        return self.nodes[0]


def enrich_amd(read: Reader, gpus: tuple[Gpu, ...], *, pci_is_known: bool = True) -> tuple[Gpu, ...]:
    """Return the GPUs with the facts that only AMD's driver reports.

    If no PCI function is known at all, the GPUs that the driver lists are added: each of them exists.
    """
    own = [gpu for gpu in gpus if gpu.vendor == "amd" and gpu.address is not None]
    if not own and pci_is_known:
        return gpus
    compute = _compute(read, [gpu.address for gpu in own if gpu.address], pci_is_known=pci_is_known)
    added = [_listed(read, address) for address in compute] if not pci_is_known else []
    version = module_version(read, AMDGPU) if own or added else None
    addresses = {node.node: address for address, partition in compute.items() for node in partition.nodes}
    return tuple(
        _enriched(read, gpu, compute.get(gpu.address), addresses, version)
        if gpu.vendor == "amd" and gpu.address
        else gpu
        for gpu in (*gpus, *added)
    )


def _listed(read: Reader, address: str) -> Gpu:
    read.problem(DEVICES, f"lists nothing, although the driver has a GPU at {address}", "the driver's data")
    read.source(f"gpus.{address}", KFD, address, "domain and location_id of its node")
    return Gpu(address, None, "amd", None, None, None, AMDGPU, None, None, None)


def _compute(read: Reader, addresses: list[str], *, pci_is_known: bool) -> dict[str, _Compute]:
    """Return the nodes of each GPU by the GPU's address."""
    by_address: dict[str, _Compute] = {}
    for node in kfd_gpus(read):
        # the partitions of a GPU may differ in the function number
        first = _FUNCTION.sub(".0", node.address)
        address = node.address if node.address in addresses else first
        if pci_is_known and address not in addresses:
            read.problem(
                f"{node.path}/properties",
                f"names a GPU at {node.address}, which PCI does not list",
                "the node is ignored",
            )
            continue
        known = by_address.setdefault(address, _Compute([]))
        if known.nodes and node.unique_id != known.first.unique_id:
            what = f"describes another GPU at {address} than node {known.first.node} does"
            read.problem(f"{node.path}/properties", what, f"node {known.first.node}")
            continue
        known.nodes.append(node)
    return by_address


def _enriched(read: Reader, gpu: Gpu, compute: _Compute | None, addresses: dict[int, str], version: str | None) -> Gpu:
    path, fact = f"{DEVICES}/{gpu.address}", f"gpus.{gpu.address}"
    attributes = frozenset(read.names(path))
    for name, witness in _WITNESSES.items():
        if name not in attributes and witness in attributes:
            read.problem(
                f"{path}/{name}", "is absent", f"its facts about {gpu.address} are unknown, or come from other sources"
            )
    minor, number = drm_numbers(read, path, fact)
    gpu = gpu._replace(
        model=read.text(f"{path}/product_name", fact=f"{fact}.model"),
        memory=natural_number(read, f"{path}/mem_info_vram_total", fact=f"{fact}.memory", rule="bytes of video memory"),
        uuid=_uuid(read.integer(f"{path}/unique_id", base=16, fact=f"{fact}.uuid", rule=_UUID_RULE)),
        vbios=read.text(f"{path}/vbios_version", fact=f"{fact}.vbios"),
        partition=_partition(read, path, fact),
        health=_health(read, path, fact),
        driver_version=version if gpu.driver == AMDGPU else None,
        minor=minor,
        number=number,
    )
    if compute is not None:
        gpu = _computing(read, gpu, compute, addresses)
    if gpu.memory is None and gpu.driver == AMDGPU:
        what = "contains nothing" if "mem_info_vram_total" in attributes else "is absent"
        read.problem(f"{path}/mem_info_vram_total", what, f"memory of {gpu.address} is unknown")
    return gpu


def _uuid(unique_id: int | None) -> str | None:
    return f"GPU-{unique_id:016x}" if unique_id and unique_id > 0 else None


def _partition(read: Reader, path: str, fact: str) -> str | None:
    compute = read.text(f"{path}/current_compute_partition")
    memory = read.text(f"{path}/current_memory_partition")
    if compute is None and memory is None:
        return None
    text = "_".join(part.lower() for part in (compute, memory) if part)
    read.source(f"{fact}.partition", f"{path}/current_compute_partition", text, "compute and memory partition mode")
    return text


def _health(read: Reader, path: str, fact: str) -> Health | None:
    if is_asleep(read, path):
        return None
    replays = natural_number(read, f"{path}/pcie_replay_count", fact=f"{fact}.health.pcie_replays")
    errors_path = ras_files(read, path).get(MEMORY_BLOCK)
    errors: dict[str, int] = {}
    if errors_path is not None:
        rule = "uncorrected (ue) and corrected (ce) errors of the memory"
        text = read.text(errors_path, fact=f"{fact}.health", rule=rule)
        errors = error_counts(text)
        if text is not None and len(errors) < 2:
            read.problem(errors_path, f"does not count errors: {text[:60]!r}", "ECC errors are unknown")
    if replays is None and not errors:
        return None
    return Health(ecc_corrected=errors.get("ce"), ecc_uncorrected=errors.get("ue"), pcie_replays=replays)


def _computing(read: Reader, gpu: Gpu, compute: _Compute, addresses: dict[int, str]) -> Gpu:
    """Return a GPU with its facts from the compute topology."""
    nodes, first, fact = compute.nodes, compute.first, f"gpus.{gpu.address}"
    file = f"{first.path}/properties"
    for name in ("compute_capability", "architecture", "compute_units", "simds", "hive"):
        read.source(f"{fact}.{name}", file, None, "gfx_target_version, simd_count / simd_per_cu, hive_id of its nodes")
    units = [node.compute_units for node in nodes]
    if gpu.memory is None:
        read.source(f"{fact}.memory", f"{first.path}/mem_banks", None, "sum of the banks of its nodes")
    if gpu.uuid is None:
        read.source(f"{fact}.uuid", file, first.unique_id, _UUID_RULE)
    return gpu._replace(
        memory=_total([node.memory for node in nodes]) if gpu.memory is None else gpu.memory,
        uuid=gpu.uuid or _uuid(first.unique_id),
        minor=first.minor if gpu.minor is None else gpu.minor,
        compute_capability=first.target,
        architecture=_architecture(first.target),
        compute_units=_total(units),
        hive=f"{first.hive:016x}" if first.hive else None,
        simds=sum(node.simds for node in nodes),
        partitions=_partitions(read, compute, fact) if len(nodes) > 1 else (),
        xgmi=_peers(read, first, gpu.address or "", addresses) if first.hive else (),
    )


def _total(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _architecture(target: str | None) -> str | None:
    fitting = [prefix for prefix in _ARCHITECTURES if target and target.startswith(prefix)]
    return _ARCHITECTURES[max(fitting, key=len)] if fitting else None


def _partitions(read: Reader, compute: _Compute, fact: str) -> tuple[Partition, ...]:
    devices = _partition_devices(read)
    read.source(
        f"{fact}.partitions", KFD, len(compute.nodes), "its nodes: those with the same PCI address and unique_id"
    )
    return tuple(
        Partition(number, node.minor, node.memory, node.compute_units, node.simds, devices.get(node.minor))
        for number, node in enumerate(compute.nodes)
    )


def _partition_devices(read: Reader) -> dict[int | None, str]:
    """Return the platform devices of partitions by the number of their render node (amdgpu_xcp_drv.c)."""
    return {
        int(match[1]): name
        for name in filter(_PARTITION_DEVICE.fullmatch, read.names(_PLATFORM))
        for node in read.names(f"{_PLATFORM}/{name}/drm")
        if (match := _RENDER_NODE.fullmatch(node))
    }


def _peers(read: Reader, node: KfdGpu, own: str, addresses: dict[int, str]) -> tuple[XgmiPeer, ...]:
    """Return the GPUs that a GPU reaches over XGMI; the links of its first partition represent all of its links."""
    peers: dict[str, XgmiPeer] = {}
    for link in xgmi_links(read, node):
        address = addresses.get(link.node)
        if address is not None and address != own:
            peers.setdefault(address, XgmiPeer(address, link.links, link.bandwidth, link.weight))
    read.source(f"gpus.{own}.xgmi", f"{node.path}/io_links", len(peers), "links of type 11 (XGMI) to other GPUs")
    return tuple(peers[address] for address in sorted(peers))
