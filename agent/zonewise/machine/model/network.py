"""Network devices and RDMA devices."""

from typing import NamedTuple

from zonewise.machine.model.pci import Sriov


class Nic(NamedTuple):
    """A network device (netdev), or a PCI function of the network class without a visible netdev."""

    name: str
    """The netdev's name; the PCI address if `presence` is not "netdev". The two cannot be confused: no netdev has a
    colon in its name (net/core/dev.c dev_valid_name())."""
    address: str | None
    """PCI address; None for a virtual device."""
    zone: int | None
    driver: str | None
    speed_mbps: int | None
    """Link speed in Mb/s; None if the link is down or the driver does not report a speed."""
    state: str | None
    """Value of operstate: "up", "down", "unknown", ..."""
    mac: str | None
    link_layer: str | None
    """"Ethernet" or "InfiniBand"."""
    sriov: Sriov | None
    rdma: str | None
    """Name of the RDMA device on the same port."""
    mtu: int | None = None
    """MTU in bytes."""
    virtual: bool = False
    """Whether software made it: loopback, bridge, veth, VLAN, bond."""
    kind: str | None = None
    """"vlan", "bond", "bridge", "loopback", "tun", "tap", "veth", "vxlan", ... if the files show it."""
    master: str | None = None
    """The bond or bridge of which it is a port."""
    lower: tuple[str, ...] = ()
    """The devices below a bond, bridge or VLAN."""
    port: int | None = None
    """dev_port: the port's index on a PCI function with several ports."""
    physical_function: str | None = None
    """For a virtual function, the PCI address of its physical one."""
    presence: str = "netdev"
    """"netdev" if the device is in the network namespace that was read.

    For a PCI function without a netdev in it: "other namespace" (its netdev was moved, usually into a pod), "user
    space" (its driver passes it to a program or a virtual machine), "no driver", or "no netdev" (its driver shows none,
    such as an InfiniBand driver without IPoIB).
    """
    rdma_port: int | None = None
    """Number of the port of the RDMA device `rdma` that it shares."""
    printed_speed: int | None = None
    """The speed as the kernel prints it: -1 if the driver reports none; None if reading it fails (link down)."""


class Gid(NamedTuple):
    """An entry of a port's GID table."""

    number: int
    """Its index in the table."""
    gid: str
    type: str | None
    """"IB/RoCE v1" or "RoCE v2"."""
    netdev: str | None


class Port(NamedTuple):
    """A port of an RDMA device. GIDs and counters date from the last time that another attribute of the
    port changed.
    """

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
    """Port counters, without those that the hardware lacks; *_data in 4-byte words, as the hardware counts.

    Many are 8, 16 or 32 bits wide and stop at their highest value (InfiniBand Architecture Specification,
    PortCounters).
    """
    hw_counters: dict[str, int]
    """The driver's own counters."""
    rate: str | None = None
    """Rate as the kernel prints it: "400 Gb/sec (4X NDR)"."""


class RdmaDevice(NamedTuple):
    """An RDMA device: InfiniBand, RoCE, iWARP, EFA."""

    name: str
    address: str | None
    """PCI address; None for a virtual device and for a device on another bus."""
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
    """The netdevs of its ports, with the bonds and VLANs on top of them, if they are in the network namespace that was
    read."""
    sys_image_guid: str | None = None
    """The same for all functions of one adapter, even if they are below different packages."""
    software: bool = False
    """Whether a driver emulates it on top of a netdev (rxe, siw). Before kernel 5.11 it has the PCI address of that
    netdev."""


class Rdma(NamedTuple):
    """RDMA facts that apply to the whole machine."""

    namespace_mode: str | None
    """"shared" (every network namespace sees every device) or "exclusive"."""
    peer_memory: str | None
    """The module that lets NICs reach GPU memory: "nvidia_peermem", "nv_peer_mem" or None."""
    dma_buf: bool | None
    """Whether kernel and GPU driver can export GPU memory as dma-buf (kernel 5.12 and an open NVIDIA module)."""
