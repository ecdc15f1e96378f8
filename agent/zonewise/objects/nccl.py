"""The machine as an NCCL topology file (NCCL_TOPO_FILE), `zonewise show -o nccl`.

From this file, jobs in virtual machines and containers get the topology that they cannot see. The format is that of
NCCL's own parser (src/graph/xml.cc and topo.cc):

- elements: system > cpu > pci > pci > gpu or nic
- attributes in double quotes, separated by one space
- no XML declaration, no escapes, at most 255 characters a value

NCCL completes what a file omits and trusts what the file contains, so unknown facts are omitted. A switch appears once,
as its upstream port: NCCL climbs two bridges at a time. The GUID of a NIC is not written. NCCL compares it with the
GUID that libibverbs reports for the whole adapter, which differs from the kernel's node_guid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.gpu import Gpu
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.pci import PciFunction
    from zonewise.machine.model.zone import Zone

VERSION = 1
MAX_VALUE = 254
"""Maximum characters of a value in NCCL (MAX_STR_LEN of src/graph/xml.h, less the terminating byte)."""

UNKNOWN_ZONE = -1
"""The numaid of the element that contains devices of unknown zone, as in NCCL."""

_ARCHITECTURES = {"x86_64": "x86_64", "aarch64": "arm64", "ppc64le": "ppc64", "ppc64": "ppc64"}
_NVSWITCH_CLASS = "0x068000"
_UNSEEN_TARGET = "fffffff:ffff:ff"  # the driver's name for a switch that it hides from a guest


class Element(NamedTuple):
    """An XML element; attributes that are None are left out."""

    name: str
    attributes: dict[str, object]
    children: list[Element]


def machine_to_nccl(machine: Machine) -> str:
    """Return the topology file of the GPUs and NICs of a machine, and of the switches between them."""
    cpus: dict[int, Element] = {}
    switches: dict[str, Element] = {}
    functions = {function.address: function for function in machine.pci}
    gpus = {gpu.address for gpu in machine.gpus}
    for function in machine.pci:
        children = [*_gpu(machine, function), *_nic(machine, function)]
        if children or function.address in gpus:
            element = _pci(function, functions, children)
            _parent(machine, function, functions, cpus, switches).children.append(element)
    system = Element("system", {"version": VERSION}, [cpus[zone] for zone in sorted(cpus)])
    return "\n".join(_lines(system, "")) + "\n"


def _parent(
    machine: Machine,
    function: PciFunction,
    functions: dict[str, PciFunction],
    cpus: dict[int, Element],
    switches: dict[str, Element],
) -> Element:
    """Return the parent element of a function, created if absent: a switch, or else the CPUs of a zone."""
    upstream = function.bridges[-2] if len(function.bridges) > 1 else None
    switch = functions.get(upstream) if upstream is not None else None
    if switch is None:
        zone = UNKNOWN_ZONE if function.zone is None else function.zone
        return cpus.setdefault(zone, _cpu(machine, zone))
    if switch.address not in switches:
        switches[switch.address] = _pci(switch, functions, [])
        _parent(machine, switch, functions, cpus, switches).children.append(switches[switch.address])
    return switches[switch.address]


# --- elements


def _cpu(machine: Machine, number: int) -> Element:
    zone = next((candidate for candidate in machine.zones if candidate.id == number), None)
    x86 = machine.architecture == "x86_64"
    attributes: dict[str, object] = {
        "numaid": number,
        "affinity": _mask(zone) if zone else None,
        "arch": _ARCHITECTURES.get(machine.architecture or ""),
        "vendor": machine.model.vendor if x86 else None,
        "familyid": _cpuid_family(machine.model.family) if x86 else None,
        "modelid": machine.model.model if x86 else None,
    }
    return Element("cpu", attributes, [])


def _mask(zone: Zone) -> str | None:
    """Return the zone's CPUs in the kernel's mask notation, None if NCCL would truncate it."""
    digits = f"{zone.cpus.bits:x}"
    padded = digits.zfill(-(-len(digits) // 8) * 8)
    mask = ",".join(padded[start : start + 8] for start in range(0, len(padded), 8))
    return mask if zone.cpus and len(mask) <= MAX_VALUE else None


def _cpuid_family(family: str | None) -> int | None:
    """Return the family as NCCL computes it from CPUID: the extended family shifted by 4 instead of 0 bits."""
    if family is None or not family.isdecimal():
        return None
    base = min(int(family), 15)
    return base + ((int(family) - base) << 4)


def _pci(function: PciFunction, functions: dict[str, PciFunction], children: list[Element]) -> Element:
    link = function.link
    port = functions.get(function.parent or "")
    speeds = [end.max_speed_gts for end in (link, port.link if port else None) if end and end.max_speed_gts]
    widths = [end.max_width for end in (link, port.link if port else None) if end and end.max_width]
    attributes: dict[str, object] = {
        "busid": function.address,
        "class": _hexadecimal(function.class_full or function.pci_class),
        "vendor": _hexadecimal(function.vendor),
        "device": _hexadecimal(function.device),
        "subsystem_vendor": _hexadecimal(function.subsystem_vendor),
        "subsystem_device": _hexadecimal(function.subsystem_device),
        "link_speed": f"{min(speeds):.1f} GT/s PCIe" if link and speeds else None,
        "link_width": min(widths) if link and widths else None,
    }
    return Element("pci", attributes, children)


def _hexadecimal(digits: str | None) -> str | None:
    return None if digits is None else f"0x{digits}"


def _gpu(machine: Machine, function: PciFunction) -> Iterator[Element]:
    for gpu in machine.gpus:
        if gpu.address == function.address and gpu.vendor == "nvidia":
            attributes: dict[str, object] = {
                "dev": gpu.number,
                "sm": _capability(gpu),
                "rank": gpu.number,
                "gdr": _gpu_direct(machine),
            }
            # NCCL rejects an element without dev or sm; without the element it queries NVML
            if gpu.number is not None and attributes["sm"] is not None:
                yield Element("gpu", attributes, list(_nvlinks(machine, gpu)))


def _capability(gpu: Gpu) -> int | None:
    """Return the compute capability as NCCL writes it: 90 for "9.0"."""
    major, dot, minor = (gpu.compute_capability or "").partition(".")
    return 10 * int(major) + int(minor) if dot and major.isdecimal() and minor.isdecimal() else None


def _gpu_direct(machine: Machine) -> int | None:
    """Return whether NICs can access GPU memory, through a module or dma-buf."""
    if machine.rdma.peer_memory is not None or machine.rdma.dma_buf:
        return 1
    return 0 if machine.rdma.dma_buf is False else None


def _nvlinks(machine: Machine, gpu: Gpu) -> Iterator[Element]:
    classes = {function.address: function.class_full or function.pci_class for function in machine.pci}
    for peer in gpu.nvlinks:
        known = classes.get(peer.address or "")
        attributes: dict[str, object] = {
            "target": peer.address or _UNSEEN_TARGET,
            "count": peer.links,
            "tclass": _hexadecimal(known) or _NVSWITCH_CLASS,
        }
        if known is not None or peer.kind == "switch":
            yield Element("nvlink", attributes, [])


def _nic(machine: Machine, function: PciFunction) -> Iterator[Element]:
    networks = list(_rdma_ports(machine, function) if _has_rdma(machine) else _netdevs(machine, function))
    if networks:
        yield Element("nic", {}, networks)


def _has_rdma(machine: Machine) -> bool:
    """Return whether NCCL would use RDMA, which it prefers to sockets if any port is active."""
    return any(port.state == "ACTIVE" for device in machine.infiniband if device.address for port in device.ports)


def _rdma_ports(machine: Machine, function: PciFunction) -> Iterator[Element]:
    for number, device in enumerate(machine.infiniband):
        for port in device.ports if device.address == function.address else ():
            if port.state == "ACTIVE":
                attributes: dict[str, object] = {
                    "name": device.name,
                    "dev": number,
                    "speed": None if port.rate_gbps is None else round(port.rate_gbps * 1000),
                    "port": port.number,
                    "gdr": _gpu_direct(machine),
                }
                yield Element("net", attributes, [])


def _netdevs(machine: Machine, function: PciFunction) -> Iterator[Element]:
    physical = [nic for nic in machine.nics if not nic.virtual and nic.state == "up"]
    for number, nic in enumerate(physical):
        if nic.address == function.address:
            yield Element("net", {"name": nic.name, "dev": number, "speed": nic.speed_mbps, "port": 0, "gdr": 0}, [])


# --- text


def _lines(element: Element, indent: str) -> Iterator[str]:
    pairs = [f' {name}="{_value(value)}"' for name, value in element.attributes.items() if value is not None]
    start = f"{indent}<{element.name}{''.join(pairs)}"
    if not element.children:
        yield f"{start}/>"
        return
    yield f"{start}>"
    for child in element.children:
        yield from _lines(child, f"{indent}  ")
    yield f"{indent}</{element.name}>"


def _value(value: object) -> str:
    """Return text that is valid XML and that NCCL reads back unchanged; NCCL has no escapes, so special characters are
    dropped.
    """
    return "".join(character for character in str(value) if character.isprintable() and character not in '<>&"')[
        :MAX_VALUE
    ]
