"""Network devices and RDMA devices."""

from typing import NamedTuple

from zonewise.machine.model.pci import Sriov


class Nic(NamedTuple):
    """A network device (netdev)."""

    name: str
    address: str | None
    """PCI address; None for a virtual device."""
    zone: int | None
    driver: str | None
    speed_mbps: int | None
    state: str | None
    """operstate: "up", "down", "unknown", ..."""
    mac: str | None
    link_layer: str | None
    """"Ethernet" or "InfiniBand"."""
    sriov: Sriov | None
    rdma: str | None
    """Name of the RDMA device of the same port."""
    mtu: int | None = None
    """Bytes."""
    virtual: bool = False
    """Made by software: loopback, bridge, veth, VLAN, bond."""
    kind: str | None = None
    """"vlan", "bond", "bridge", ... where the kernel says."""
    master: str | None = None
    """The bond or bridge that it is a port of."""
    lower: tuple[str, ...] = ()
    """The devices below a bond, bridge or VLAN."""
    port: int | None = None
    """dev_port: which port of a PCI function with several."""
    physical_function: str | None = None
    """For a virtual function, the PCI address of its physical one."""


class Gid(NamedTuple):
    """An entry of a port's GID table."""

    number: int
    """Its place in the table."""
    gid: str
    type: str | None
    """"IB/RoCE v1" or "RoCE v2"."""
    netdev: str | None


class Port(NamedTuple):
    """A port of an RDMA device."""

    number: int
    state: str | None
    """"ACTIVE", "DOWN", "INIT", "ARMED"."""
    physical_state: str | None
    """"LinkUp", "Polling", "Disabled", ..."""
    rate_gbps: float | None
    link_layer: str | None
    """"InfiniBand", "Ethernet" or None."""
    lid: int | None
    sm_lid: int | None
    gids: tuple[Gid, ...]
    counters: dict[str, int]
    """Port counters; *_data in words of 4 bytes, as the hardware counts."""
    hw_counters: dict[str, int]
    rate: str | None = None
    """As the kernel prints it: "400 Gb/sec (4X NDR)"."""


class RdmaDevice(NamedTuple):
    """An RDMA device: InfiniBand, RoCE, iWARP, EFA."""

    name: str
    address: str | None
    """PCI address; None for a virtual device (rxe, siw)."""
    zone: int | None
    node_guid: str | None
    firmware: str | None
    board: str | None
    """board_id, the vendor's name of the board."""
    ports: tuple[Port, ...]
    hca_type: str | None = None
    node_type: str | None = None
    """"CA", "SWITCH", "RNIC", ..."""
    netdevs: tuple[str, ...] = ()


class Rdma(NamedTuple):
    """What holds for RDMA on the whole machine."""

    namespace_mode: str | None
    """"shared" (every network namespace sees every device) or "exclusive"."""
    peer_memory: str | None
    """The module that lets NICs reach GPU memory: "nvidia_peermem", "nv_peer_mem" or None."""
    dma_buf: bool | None
    """Whether kernel and GPU driver can export GPU memory as dma-buf (kernel 5.12 and an open NVIDIA module)."""
