"""`zonewise top`: nodes and their zones as a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise_common.cli.output_format import Listing
from zonewise_common.cli.table import Cell, Column, make_table
from zonewise_common.k8s.quantity import format_binary_quantity
from zonewise_scheduler.client.nodes.node_facts import (
    CPU,
    MEMORY,
    free_gpus,
    largest_block,
    largest_share,
    zone_cpus,
    zone_gpus,
)
from zonewise_scheduler.quota.api.amount import amount_text
from zonewise_scheduler.quota.api.gpu_resource import is_gpu

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from zonewise_scheduler.client.nodes.node_facts import NodeAvailability, ZoneFacts

Json = dict[str, Any]

COLUMNS = (
    Column("NODE", shorten="middle"),
    Column("ZONE", right=True),
    Column("CPUS FREE", right=True),
    Column("OF", right=True),
    Column("MEM FREE", right=True),
    Column("OF", right=True, yields=True),
    Column("GPUS FREE", right=True),
    Column("OF", right=True),
    Column("LARGEST", right=True),
    Column("PODS", right=True, yields=True),
    Column("STATUS", shorten="end"),
    Column("IN ONE ZONE", right=True, wide=True),
    Column("FREE CPUS", wide=True),
    Column("DEVICES FREE", wide=True),
    Column("POLICY", wide=True),
)
UNKNOWN = "?"
"""The text of a cell whose value is unknown; an empty cell has no value."""
_GIB = 1 << 30

_ORDERS: Mapping[str, Callable[[NodeAvailability], Sequence[int | None]]] = {
    "cpus": lambda node: [node.free(CPU)],
    "memory": lambda node: [node.free(MEMORY)],
    "gpus": lambda node: [free_gpus(node)],
    "largest": lambda node: _largest_block([node])[::-1],
    "pods": lambda node: [None if node.pods is None else len(node.pods)],
}
SORT_COLUMNS = tuple(_ORDERS)


def sorted_nodes(nodes: Sequence[NodeAvailability], column: str) -> Sequence[NodeAvailability]:
    """Return nodes in descending order of a column; those without a known value come last.

    `column`: one of SORT_COLUMNS, or "" for the order of `nodes`. The largest block counts GPUs first, then CPUs.
    """
    if not column:
        return nodes
    order = _ORDERS[column]
    return sorted(nodes, key=lambda node: [-1 if amount is None else amount for amount in order(node)], reverse=True)


def list_nodes(nodes: Sequence[NodeAvailability], notes: Sequence[str] = (), *, zones: bool = True) -> Listing:
    """Return nodes, each followed by its zones; if there are several nodes, the last row contains the sums."""
    rows = [row for node in nodes for row in _node_rows(node, zones=zones)]
    rows += [_total_row(nodes)] if len(nodes) > 1 else []
    names = [f"node/{node.name}" for node in nodes]
    document = {"items": [_document(node) for node in nodes]}
    return Listing((make_table(COLUMNS, rows),), document, names, notes, "There are no nodes.")


def memory_text(size: int | None) -> str:
    """Return bytes in GiB ("118.4Gi"), or smaller sizes as a quantity; "" for None."""
    if size is None:
        return ""
    if size < _GIB:
        return format_binary_quantity(size)
    return f"{size / _GIB:.1f}".removesuffix(".0") + "Gi"


def share_text(share: float | None) -> str:
    """Return "75%"; "" for None."""
    return "" if share is None else f"{round(100 * share)}%"


def _node_rows(node: NodeAvailability, *, zones: bool) -> Iterator[list[str | Cell]]:
    share = _share(node)
    cpus, memory, gpus, pods = _free_texts([node])
    yield [
        Cell(node.name, "bold"),
        "",
        cpus,
        _cpus(node.allocatable.get(CPU)),
        memory,
        memory_text(node.allocatable.get(MEMORY)),
        gpus,
        _count(_all_gpus(node)),
        _block_text([node]),
        pods,
        _status(node),
        Cell(share_text(share), "warning" if share is not None and share < 0.5 else ""),
        "",
        _devices((*((name, node.free(name)) for name in node.devices), *_class_devices(node))),
        node.policy,
    ]
    for zone in (node.zones or ()) if zones else ():
        yield _zone_row(zone)


def _zone_row(zone: ZoneFacts) -> list[str | Cell]:
    cpu, memory = zone.resources.get(CPU), zone.resources.get(MEMORY)
    gpus = [info for name, info in zone.resources.items() if is_gpu(name)]
    devices = ((name, zone.free(name)) for name in zone.resources if name not in (CPU, MEMORY))
    return [
        "",
        str(zone.id),
        "" if cpu is None else str(cpu.available),
        "" if cpu is None else str(cpu.allocatable),
        "" if memory is None else memory_text(memory.available),
        "" if memory is None else memory_text(memory.allocatable),
        _count(zone_gpus(zone)),
        str(sum(info.allocatable for info in gpus)) if gpus else "",
        "",
        "",
        "",
        "",
        zone.free_cpus,
        _devices(devices),
        "",
    ]


def _total_row(nodes: Sequence[NodeAvailability]) -> list[str | Cell]:
    cpus, memory, gpus, pods = _free_texts(nodes)
    return [
        Cell(f"{len(nodes)} nodes", "bold"),
        "",
        cpus,
        _cpus(_total(node.allocatable.get(CPU) for node in nodes)),
        memory,
        memory_text(_total(node.allocatable.get(MEMORY) for node in nodes)),
        gpus,
        _count(_total(map(_all_gpus, nodes))),
        _block_text(nodes),
        pods,
        "",
        "",
        "",
        "",
        "",
    ]


def _free_texts(nodes: Sequence[NodeAvailability]) -> tuple[str, str, str, str]:
    """Return the total free CPUs, memory and GPUs of nodes, and the number of their pods."""
    if any(node.requested is None for node in nodes):
        return UNKNOWN, UNKNOWN, UNKNOWN if any(map(_all_gpus, nodes)) else "", UNKNOWN
    return (
        _cpus(_total(node.free(CPU) for node in nodes)),
        memory_text(_total(node.free(MEMORY) for node in nodes)),
        _count(_total(map(free_gpus, nodes))),
        str(sum(len(node.pods or ()) for node in nodes)),
    )


def _total(amounts: Iterable[int | None]) -> int | None:
    """Return the sum of the known amounts; None if there are none."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if known else None


def _block_text(nodes: Sequence[NodeAvailability]) -> str:
    """Return the largest free block of one zone, "4 GPUs" or "12 CPUs"; "" if no node has a report."""
    cpus, gpus = _largest_block(nodes)
    amount, unit = (cpus, "CPU") if gpus is None else (gpus, "GPU")
    return "" if amount is None else f"{amount} {unit}{'s' * (amount != 1)}"


def _largest_block(nodes: Sequence[NodeAvailability]) -> tuple[int | None, int | None]:
    """Return the most CPUs and the most GPUs available in a single zone of these nodes; None if no zone has any."""
    zones = [zone for node in nodes for zone in node.zones or ()]
    return largest_block(map(zone_cpus, zones)), largest_block(map(zone_gpus, zones))


def _share(node: NodeAvailability) -> float | None:
    """Return the largest free block of a zone divided by the free amount of all zones: of GPUs, otherwise of CPUs."""
    zones = node.zones or ()
    of_gpus = largest_share(map(zone_gpus, zones))
    return largest_share(map(zone_cpus, zones)) if of_gpus is None and not _all_gpus(node) else of_gpus


def _all_gpus(node: NodeAvailability) -> int | None:
    return _total(node.allocatable.get(name) for name in node.devices if is_gpu(name))


def _status(node: NodeAvailability) -> Cell:
    if node.problems:
        return Cell(", ".join(problem.partition(":")[0] for problem in node.problems), "bad")
    if not node.schedulable:
        return Cell("cordoned", "warning")
    if node.zones is None:
        return Cell("no report", "dim")
    return Cell("") if node.ready is not None else Cell("unknown", "warning")


def _cpus(milli: int | None) -> str:
    if milli is None:
        return ""
    return f"{milli / 1000:.1f}".removesuffix(".0")


def _count(number: int | None) -> str:
    return "" if number is None else str(number)


def _class_devices(node: NodeAvailability) -> Iterator[tuple[str, int | None]]:
    return ((name, devices.free) for name, devices in node.class_devices.items())


def _devices(amounts: Iterable[tuple[str, int | None]]) -> str:
    return ", ".join(f"{name}={amount}" for name, amount in amounts if amount is not None)


def _document(node: NodeAvailability) -> Json:
    free = {name: node.free(name) for name in node.allocatable}
    return {
        "name": node.name,
        "ready": node.ready,
        "schedulable": node.schedulable,
        "problems": list(node.problems),
        "allocatable": {name: amount_text(name, amount) for name, amount in node.allocatable.items()},
        "free": {name: None if amount is None else amount_text(name, amount) for name, amount in free.items()},
        "pods": None if node.pods is None else len(node.pods),
        "deviceClasses": {name: devices._asdict() for name, devices in node.class_devices.items()},
        "policy": node.policy or None,
        "largestBlock": dict(zip(("cpus", "gpus"), _largest_block([node]), strict=True)),
        "largestShare": _share(node),
        "zones": None if node.zones is None else [_zone_document(zone) for zone in node.zones],
    }


def _zone_document(zone: ZoneFacts) -> Json:
    """Return the document of a zone, with whole CPUs."""
    return {
        "id": zone.id,
        "resources": {name: info._asdict() for name, info in zone.resources.items()},
        "freeCpus": zone.free_cpus or None,
    }
