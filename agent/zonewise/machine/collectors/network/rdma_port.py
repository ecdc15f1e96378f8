"""A port of an RDMA device: its state, rate and addresses, its GID table and its counters.

Sources: drivers/infiniband/core/sysfs.c of the kernel, and its Documentation/ABI/stable/sysfs-class-infiniband.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.model.network import Gid, Port
from zonewise.machine.reader import natural

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from zonewise.machine.attributes import Attributes
    from zonewise.machine.reader import Reader

VOLATILE = ("state", "phys_state", "rate", "lid")
"""The attributes of a port that change with its link."""

_ALWAYS = ("state", "phys_state", "rate", "lid", "sm_lid")
_HARDWARE_FILES = (*_ALWAYS, "link_layer", "gids")
_TYPES = "gid_attrs"  # kernel 4.5
# sysfs.c link_layer_show()
_LINK_LAYERS = {"InfiniBand": "InfiniBand", "Ethernet": "Ethernet", "Unspecified": None, "Unknown": None}

_UNKNOWN_STATE = "<unknown>"  # drivers/infiniband/core/sysfs.c phys_state_to_str()
_NUMBER_AND_NAME = re.compile(r"[0-9]{1,3}: (\S.*)")
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) Gb/sec(?: \(.*\))?")  # "200 Gb/sec (2X NDR)"; iWARP has no "NDR"
_GID = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){7}")
_NO_INTERFACE = ":0000:0000:0000:0000"  # an unused entry: all zero, or only the subnet prefix

_MAX_UNUSED = 64
"""Number of unused entries in a row after which the rest of a GID table counts as unused.

A table has up to 256 entries, 1024 for software devices, and reading an unused entry costs as much as reading a used
one. The kernel fills the lowest free entry (drivers/infiniband/core/cache.c find_gid()).
"""

_LIFESPAN = "lifespan"  # milliseconds for which hw_counters are cached; not a counter
_NO_COUNTER = b"N/A"  # "N/A (no PMA)": the device has no performance management agent


class ListedPort(NamedTuple):
    """A port whose directories have been listed but not read."""

    number: int
    attributes: Attributes
    counters: Attributes
    legacy_counters: Attributes
    """64-bit counters in their own directory, before kernel 4.5."""
    hw_counters: Attributes


def list_port(device: Attributes, index: int, number: int) -> ListedPort:
    """List a port's directories; `index` is the port's position among the ports of the device."""
    attributes = device.part(f"ports/{number}", f"ports.{index}", f"{device.what} port {number}")
    rule = "the number of the port is the name of its directory"
    device.read.source(attributes.fact, attributes.path, number, rule)
    directories = (("counters", "counters"), ("counters_ext", "counters"), ("hw_counters", "hw_counters"))
    return ListedPort(number, attributes, *(attributes.part(name, fact) for name, fact in directories))


def report_lacking(ports: list[tuple[ListedPort, Hashable]]) -> None:
    """Report missing attributes: those of every port, and those that another port of the same kind of device has.

    The kind is None if no PCI function is known: software devices may differ in their attributes.
    """
    types = [_TYPES] if any(_TYPES in port.attributes.names for port, _ in ports) else []
    counters: dict[Hashable, set[str]] = {}
    hw_counters: dict[Hashable, set[str]] = {}
    for port, kind in ports:
        counters.setdefault(kind, set()).update(port.counters.names)
        hw_counters.setdefault(kind, set()).update(port.hw_counters.names)
    for port, kind in ports:
        port.attributes.report_lacking((*_HARDWARE_FILES, *types) if kind is not None else _ALWAYS)
        if kind is not None:
            port.counters.report_lacking(counters[kind])
            port.hw_counters.report_lacking(hw_counters[kind])


def port(listed_port: ListedPort) -> Port:
    """Read a port."""
    attributes = listed_port.attributes
    link_layer = _link_layer(attributes)
    rate = _rate(attributes)
    return Port(
        number=listed_port.number,
        state=state_name(attributes, "state", "state"),
        physical_state=state_name(attributes, "phys_state", "physical_state"),
        rate_gbps=rate and rate[1],
        link_layer=link_layer,
        lid=attributes.integer("lid", "lid", base=16, highest=(1 << 32) - 1, rule="hexadecimal"),
        sm_lid=attributes.integer("sm_lid", "sm_lid", base=16, highest=(1 << 32) - 1, rule="hexadecimal"),
        gids=tuple(_gids(attributes, link_layer)),
        counters=_counters(listed_port.counters) | _counters(listed_port.legacy_counters),
        hw_counters=_counters(listed_port.hw_counters),
        rate=rate and rate[0],
    )


def state_name(attributes: Attributes, name: str, field: str) -> str | None:
    """Return the name in an attribute such as "4: ACTIVE"."""
    text = attributes.text(name, field, "the name after the number")
    if text is None:
        return None
    match = _NUMBER_AND_NAME.fullmatch(text)
    if match is None:
        path = f"{attributes.path}/{name}"
        attributes.read.problem(path, f"is not a number and name: {text[:60]!r}", f"{field} is unknown")
        return None
    return match[1] if match[1] != _UNKNOWN_STATE else None


def _link_layer(attributes: Attributes) -> str | None:
    text = attributes.text("link_layer", "link_layer")
    if text is not None and text not in _LINK_LAYERS:
        path = f"{attributes.path}/link_layer"
        attributes.read.problem(path, f"is not a link layer: {text[:60]!r}", "link_layer is unknown")
    return _LINK_LAYERS.get(text or "")


def _rate(attributes: Attributes) -> tuple[str, float | None] | None:
    text = attributes.text("rate", "rate")
    if text is None:
        return None
    match = _RATE.fullmatch(text)
    if match is None:
        attributes.read.problem(f"{attributes.path}/rate", f"is not a rate: {text[:60]!r}", "rate_gbps is unknown")
        return None
    gbps = float(match[1])
    rule = "the number before Gb/sec: the current rate of the link"
    attributes.read.source(f"{attributes.fact}.rate_gbps", f"{attributes.path}/rate", text, rule)
    return text, gbps or None


def _gids(attributes: Attributes, link_layer: str | None) -> Iterator[Gid]:
    """Yield the used entries of the GID table, up to the end of the used part (_MAX_UNUSED)."""
    read, path = attributes.read, f"{attributes.path}/gids"
    if "gids" not in attributes.names:
        return
    numbers = sorted({int(name) for name in read.names(path) if name.isascii() and name.isdecimal() and len(name) < 6})
    if not numbers or numbers[-1] != len(numbers) - 1:
        read.problem(path, f"lists {len(numbers)} entries with gaps between them", "the listed entries")
    read.source(f"{attributes.fact}.gids", path, f"{len(numbers)} entries", "the entries that are neither unset nor 0")
    more = f"{attributes.path}/{_TYPES}" if _TYPES in attributes.names else None
    has_netdevs = link_layer == "Ethernet"  # the GID table of an InfiniBand port does not name its netdev
    unused = 0
    for number in numbers:
        gid = _gid(read, f"{path}/{number}", more and f"{more}/types/{number}")
        if gid is not None:
            unused = 0
            kind = read.text(f"{more}/types/{number}", needed="type of a GID") if more else None
            yield Gid(number, gid, kind, _netdev(read, f"{more}/ndevs", number) if more and has_netdevs else None)
        elif (unused := unused + 1) == _MAX_UNUSED:
            return


def _gid(read: Reader, path: str, type_path: str | None) -> str | None:
    """Return the GID of one entry; None for an unused one.

    Reading an unused entry or its type fails with EINVAL; in copies of a machine's files both are then empty. Kernels
    without types (before 4.5) printed unused entries too.
    """
    content = read.raw(path)
    if content is None or (not content and type_path is not None and not read.raw(type_path)):
        return None
    text = content.decode("ascii", "backslashreplace").strip("\0\n ")
    if _GID.fullmatch(text) is None:
        read.problem(path, f"is not a GID: {text[:60]!r}", "the entry is omitted")
        return None
    return None if text.endswith(_NO_INTERFACE) else text


def _netdev(read: Reader, directory: str, number: int) -> str | None:
    """Return the netdev of a used entry; None for a netdev that is down (ENODEV)."""
    name = read.text(f"{directory}/{number}")
    if name is None and str(number) not in read.names(directory):
        read.problem(f"{directory}/{number}", "is absent", "the netdev of a GID is unknown")
    return name


def _counters(entries: Attributes) -> dict[str, int]:
    """Return the counters in a directory, without those that the hardware lacks (EINVAL, "N/A (no PMA)")."""
    counters: dict[str, int] = {}
    for name in natural([name for name in entries.names if name != _LIFESPAN]):
        value = entries.integer(
            name,
            name,
            rule="as the hardware counts",
            needed=False,
            no_number=lambda content: content.startswith(_NO_COUNTER),
        )
        if value is not None:
            counters[name] = value
    return counters
