"""RDMA on the whole machine, and which netdev shares a port with which RDMA device.

The GID table of a RoCE port names the port's netdevs, so it is checked first. But in shared mode (rdma-system(8)) the
table is visible in every network namespace. It uses a netdev's name in that netdev's namespace: a pod's "eth0" is not
the host's. So a name counts only if the host's netdev of that name has the same PCI function. A table may name none of
the host's netdevs (InfiniBand, or no GID yet). Then a netdev belongs to the RDMA device of its PCI function, at the
port in its own files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors.network import infiniband, nics
from zonewise.machine.model.network import Rdma
from zonewise.machine.reader import natural

if TYPE_CHECKING:
    from collections.abc import Hashable

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.network import Nic, RdmaDevice
    from zonewise.machine.reader import Reader

_MODE = "sys/module/ib_core/parameters/netns_mode"
_PEERS = "sys/kernel/mm/memory_peers"
_NVIDIA = "proc/driver/nvidia/version"
_AMDGPU = "sys/module/amdgpu"

_PEER_MODULES = ("nvidia_peermem", "nv_peer_mem")
_PEER = "nv_mem"  # name that both register; nvidia_peermem also registers as "nv_mem_nc"
_SHARED_ONLY_BEFORE = (5, 2)  # drivers/infiniband/core/device.c has exclusive mode since 5.2
_DMA_BUF_SINCE = (5, 12)  # drivers/infiniband/core/umem_dmabuf.c
_BACKPORTED = ".el8"  # Red Hat carries newer RDMA code in its 4.18
_RELEASE = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})")


class _Pair(NamedTuple):
    """A netdev and the RDMA device port that it shares."""

    device: str
    port: int | None


def _collect(read: Reader, machine: Machine) -> Machine:
    mode = _namespace_mode(read, machine)
    rdma = Rdma(mode, _peer_memory(read), _dma_buf(read, machine))
    if not machine.infiniband and rdma == Rdma(None, None, None):
        raise NoData("no RDMA")
    pairs = _pairs(read, machine)
    return machine._replace(
        rdma=rdma,
        nics=tuple(_with_rdma(read, nic, pairs.get(nic.name), machine.infiniband) for nic in machine.nics),
        infiniband=tuple(_with_netdevs(device, machine.nics, pairs) for device in machine.infiniband),
    )


# --- which netdev belongs to which RDMA device


def _pairs(read: Reader, machine: Machine) -> dict[str, _Pair]:
    """Return each netdev that has an RDMA device, with that device."""
    netdevs = {nic.name: nic for nic in machine.nics}
    devices_by_function: dict[str, list[RdmaDevice]] = {}
    for device in machine.infiniband:
        devices_by_function.setdefault(device.address or "", []).append(device)
    pairs: dict[str, _Pair] = {}
    for nic in machine.nics:
        if nic.address is not None and (device := _same_device(read, nic, devices_by_function.get(nic.address, []))):
            port = _shared_port(nic, device)
            if _is_named_or_unnamed(nic, device, port, netdevs):
                pairs[nic.name] = _Pair(device.name, port)
    for device in machine.infiniband:
        for name, port in _upper_names(device, netdevs):
            pairs.setdefault(name, _Pair(device.name, port))
    for nic in machine.nics:
        # a bond of RoCE ports has one RDMA device, on the function of its first port (mlx5 RoCE LAG)
        if nic.name not in pairs and nic.address is not None and nic.master in pairs:
            pairs[nic.name] = pairs[nic.master]
    return pairs


def _same_device(read: Reader, nic: Nic, candidates: list[RdmaDevice]) -> RdmaDevice | None:
    """Return the RDMA device of a netdev's PCI function. With subfunctions a function has several, each in its own
    directory.
    """
    if len(candidates) <= 1:
        return candidates[0] if candidates else None
    owner = _owner(read, f"{nics.CLASS}/{nic.name}")
    same = [each for each in candidates if owner and _owner(read, f"{infiniband.CLASS}/{each.name}") == owner]
    return same[0] if len(same) == 1 else None


def _owner(read: Reader, path: str) -> str | None:
    """Return the directory of the device that owns a class entry: .../net/eth0 and .../infiniband/mlx5_0."""
    target = read.link(path)
    return target.rsplit("/", 2)[0] if target else None


def _shared_port(nic: Nic, device: RdmaDevice) -> int | None:
    """Return the number of a netdev's port on the device: dev_port counts from 0, RDMA ports from 1."""
    numbers = [port.number for port in device.ports]
    if nic.port is not None and nic.port + 1 in numbers:
        return nic.port + 1
    return numbers[0] if len(numbers) == 1 else None


def _is_named_or_unnamed(nic: Nic, device: RdmaDevice, port: int | None, netdevs: dict[str, Nic]) -> bool:
    """Return whether a port's GID table names the netdev, or no netdev of its function at all.

    A table that names another netdev of the function excludes this one. The netdev is then a representor of a virtual
    function on an embedded switch and has no RDMA of its own.
    """
    names = {gid.netdev for each in device.ports if each.number == port for gid in each.gids}
    local_names = {name for name in names if name in netdevs and netdevs[name].address == device.address}
    return nic.name in local_names or not local_names or nic.presence != "netdev"


def _upper_names(device: RdmaDevice, netdevs: dict[str, Nic]) -> list[tuple[str, int | None]]:
    """Return the software netdevs that a device serves: those in its GID tables that are on top of its own function."""
    named: list[tuple[str, int | None]] = [(name, None) for name in device.netdevs]
    named += [(gid.netdev, port.number) for port in device.ports for gid in port.gids if gid.netdev is not None]
    if device.address is None:
        only = device.ports[0].number if len(device.ports) == 1 else None
        return [(name, port or only) for name, port in named if name in netdevs]
    return [
        (name, port)
        for name, port in named
        if name in netdevs and netdevs[name].virtual and device.address in _functions_below(name, netdevs)
    ]


def _functions_below(name: str, netdevs: dict[str, Nic]) -> set[str | None]:
    """Return the PCI functions below a netdev, found through bonds and VLANs."""
    below: set[str | None] = set()
    waiting, visited = [name], {name}
    while waiting:
        nic = netdevs.get(waiting.pop())
        if nic is not None:
            below.add(nic.address)
            waiting += [lower for lower in nic.lower if lower not in visited]
            visited.update(nic.lower)
    return below


def _with_rdma(read: Reader, nic: Nic, pair: _Pair | None, devices: tuple[RdmaDevice, ...]) -> Nic:
    if pair is None:
        return nic
    rule = "the GID table that names the netdev, or the RDMA device of the same PCI function and port"
    read.source(f"nics.{nic.name}.rdma", f"{infiniband.CLASS}/{pair.device}", pair.device, rule)
    read.source(f"nics.{nic.name}.rdma_port", f"{nics.CLASS}/{nic.name}/dev_port", nic.port, rule)
    layers = {port.link_layer for device in devices if device.name == pair.device for port in device.ports}
    shown = nic.link_layer or (layers.pop() if len(layers) == 1 else None)
    return nic._replace(rdma=pair.device, rdma_port=pair.port, link_layer=shown)


def _with_netdevs(device: RdmaDevice, nics: tuple[Nic, ...], pairs: dict[str, _Pair]) -> RdmaDevice:
    names = [nic.name for nic in nics if nic.presence == "netdev" and _belongs_to(pairs.get(nic.name), device)]
    return device._replace(netdevs=tuple(natural(names)))


def _belongs_to(pair: _Pair | None, device: RdmaDevice) -> bool:
    return pair is not None and pair.device == device.name


# --- the whole machine


def _namespace_mode(read: Reader, machine: Machine) -> str | None:
    """Return "shared" or "exclusive".

    `rdma system set netns` changes the same variable (drivers/infiniband/core/device.c ib_devices_shared_netns).
    """
    fact = "rdma.namespace_mode"
    text = read.text(_MODE, fact=fact, rule="Y: every network namespace sees every RDMA device")
    if text in ("Y", "N"):
        return "shared" if text == "Y" else "exclusive"
    if text is not None:
        read.problem(_MODE, f"contains {text[:60]!r}, neither Y nor N", "namespace_mode is unknown")
        return None
    release = _release(machine)
    if machine.infiniband and release is not None and release < _SHARED_ONLY_BEFORE:
        read.source(fact, "proc/sys/kernel/osrelease", machine.kernel.release, "kernels before 5.2 have no other mode")
        return "shared"
    return None


def _peer_memory(read: Reader) -> str | None:
    for module in _PEER_MODULES:
        if read.has(f"sys/module/{module}"):
            read.source("rdma.peer_memory", f"sys/module/{module}", module, "the module is loaded")
            return module
    peers = [name for name in read.names(_PEERS) if name.startswith(_PEER)]
    if not peers:
        return None
    read.source("rdma.peer_memory", f"{_PEERS}/{peers[0]}", peers[0], "registered as a client of peer memory")
    return _PEER_MODULES[0] if f"{_PEER}_nc" in peers else _PEER_MODULES[1]


def _dma_buf(read: Reader, machine: Machine) -> bool | None:
    """Return whether GPU memory can be exported as dma-buf and registered by a NIC; None without a GPU driver.

    NVIDIA's closed kernel module cannot export it.
    """
    rule = "kernel 5.12, and amdgpu or an open NVIDIA kernel module"
    version = read.text(_NVIDIA, fact="rdma.dma_buf", rule=rule)
    release = _release(machine)
    if version is not None and "Open Kernel Module" not in version:
        return False
    if version is None and not read.has(_AMDGPU):
        return None
    if release is None or (release < _DMA_BUF_SINCE and _BACKPORTED in (machine.kernel.release or "")):
        return None
    read.source("rdma.dma_buf", _NVIDIA if version else _AMDGPU, machine.kernel.release, rule)
    return release >= _DMA_BUF_SINCE


def _release(machine: Machine) -> tuple[int, int] | None:
    match = _RELEASE.match(machine.kernel.release or "")
    return (int(match[1]), int(match[2])) if match else None


def _volatile(peek: Peek) -> Hashable:
    """Notice a mode changed by an administrator, and drivers that were loaded or unloaded."""
    modules = (*(f"sys/module/{name}" for name in _PEER_MODULES), _AMDGPU, _PEERS)
    return peek.content(_MODE), peek.content(_NVIDIA), tuple(bool(peek.names(module)) for module in modules)


COLLECTOR = Collector(
    name="rdma",
    provides=("rdma", "nics", "infiniband"),
    needs=("kernel", "nics", "infiniband"),
    collect=_collect,
    volatile=_volatile,
)
