"""The topology of AMD's compute driver, /sys/class/kfd: the parts of each GPU and its links.

Source: drivers/gpu/drm/amd/amdkfd/kfd_topology.c of the kernel. A node in this topology is a NUMA node with CPUs, a
GPU, or one partition of a GPU. Each line of the files has a name and a number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.gpu.drm import KFD
from zonewise.machine.reader import parse_integer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.reader import Reader

_NODES = f"{KFD}/nodes"
_MAX_NODES = 4096  # far more than any machine has
_LOCAL_HEAPS = (1, 2)  # kfd_crat.h HSA_MEM_HEAP_TYPE_FB_PUBLIC, _FB_PRIVATE: memory of the GPU itself
_EVERY_NODE = ("simd_count", "location_id", "max_engine_clk_ccompute")
"""The properties that every kernel writes for a node; node_show() writes the last one at the end."""
_XGMI = 11  # kfd_crat.h CRAT_IOLINK_TYPE_XGMI


class KfdLink(NamedTuple):
    """An XGMI link from a GPU to another node."""

    node: int
    weight: int | None
    links: int | None
    bandwidth: int | None
    """MB/s."""


class KfdGpu(NamedTuple):
    """A node of the topology that is a GPU or a partition of one."""

    node: int
    address: str
    """The PCI address; up to kernel 6.7 each further partition has the next function number."""
    minor: int | None
    memory: int | None
    """Bytes."""
    compute_units: int | None
    simds: int
    target: str | None
    """The instruction set, "gfx942"."""
    unique_id: int | None
    hive: int | None

    @property
    def path(self) -> str:
        """Return the directory of the node."""
        return f"{_NODES}/{self.node}"


def kfd_gpus(read: Reader) -> list[KfdGpu]:
    """Return the GPUs and partitions that the driver lists, by node."""
    numbers = sorted(int(name) for name in read.names(_NODES) if name.isdecimal() and len(name) <= 4)
    gpus = [_gpu(read, number) for number in numbers[:_MAX_NODES]]
    return [gpu for gpu in gpus if gpu is not None]


def xgmi_links(read: Reader, gpu: KfdGpu) -> list[KfdLink]:
    """Return the XGMI links of a GPU or partition."""
    paths = [f"{gpu.path}/io_links/{name}/properties" for name in read.names(f"{gpu.path}/io_links")]
    what = f"a link of the GPU at {gpu.address}"
    links = [_properties(read, path, what, ("type", "node_to")) for path in paths]
    return [_link(link) for link in links if link.get("type") == _XGMI]


def _link(link: dict[str, int]) -> KfdLink:
    # kfd_crat.c kfd_fill_gpu_xgmi_link_to_gpu(): the minimum is the bandwidth of one link, the maximum that of all
    # links
    minimum, every = link.get("min_bandwidth", 0), link.get("max_bandwidth", 0)
    return KfdLink(link["node_to"], link.get("weight"), every // minimum if minimum and every else None, every or None)


def _gpu(read: Reader, node: int) -> KfdGpu | None:
    path = f"{_NODES}/{node}"
    own = _properties(read, f"{path}/properties", f"node {node} of the GPUs", _EVERY_NODE)
    if not own.get("simd_count"):
        return None
    location = (
        own["location_id"] & 0xFFFF
    )  # bus, device, function; from kernel 6.8 on the partition is in bits 28 to 31
    address = f"{own.get('domain', 0):04x}:{location >> 8:02x}:{location >> 3 & 0x1F:02x}.{location & 7}"
    per_unit = own.get("simd_per_cu")
    return KfdGpu(
        node=node,
        address=address,
        minor=own.get("drm_render_minor") or None,
        memory=_memory(read, path),
        compute_units=own["simd_count"] // per_unit if per_unit else None,
        simds=own["simd_count"],
        target=_target(own.get("gfx_target_version")),
        unique_id=own.get("unique_id") or None,
        hive=own.get("hive_id") or None,
    )


def _memory(read: Reader, path: str) -> int | None:
    banks = [f"{path}/mem_banks/{name}/properties" for name in read.names(f"{path}/mem_banks")]
    properties = [_properties(read, bank, "the GPU's memory", ("heap_type", "size_in_bytes")) for bank in banks]
    if not all(properties):
        return None
    return sum(bank["size_in_bytes"] for bank in properties if bank["heap_type"] in _LOCAL_HEAPS) or None


def _target(version: int | None) -> str | None:
    """Return the name of an instruction set: 90402 is gfx942, 90010 is gfx90a (the last two digits are hexadecimal)."""
    if not version:
        return None
    major, rest = divmod(version, 10000)
    minor, step = divmod(rest, 100)
    return f"gfx{major}{minor:x}{step:x}"


def _properties(read: Reader, path: str, what: str, needed: tuple[str, ...]) -> dict[str, int]:
    """Return the numbers in a file by name; no numbers if a needed one is absent."""
    content = read.raw(path, needed=what)
    if content is None:
        return {}
    # every line ends in a newline, so text after the last newline is a truncated line
    *lines, rest = content.decode("ascii", "backslashreplace").rstrip("\0").split("\n")
    numbers = dict(_numbers(read, path, lines))
    lacking = [name for name in needed if name not in numbers]
    if rest or lacking:
        wrong = "is truncated" if rest else f"lacks {', '.join(lacking)}"
        read.problem(path, wrong, f"{what} is unknown" if lacking else "its complete lines")
    return {} if lacking else numbers


def _numbers(read: Reader, path: str, lines: list[str]) -> Iterator[tuple[str, int]]:
    for line in lines:
        name, _, value = line.strip().partition(" ")
        try:
            number = parse_integer(value)
        except ValueError:
            if name:
                read.problem(path, f"has a line that is not a number: {line[:60]!r}", "the other lines")
            continue
        if number >= 0:
            yield name, number
