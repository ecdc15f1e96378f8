"""Phrases about cores, memories and numbered things, in the styles of the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.render.formatting import format_count, format_cpu_list, format_name_range, format_number_list

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.render.boxes import Box, Cores, Device, Label, Memory
    from zonewise.render.canvas import Span
    from zonewise_common.k8s.cpuset import CpuSet

_MOST_SETS = 16  # CPU sets of folded boxes listed one by one; if there are more, only the union is shown
_LONGEST_NUMBERS = 24  # characters; a longer list of scattered ids is useless


def label_text(label: Label) -> str:
    """Format the label of a box: "Zone 0", "64 zones 0-63"; "Package" if the kernel provides no number."""
    known = [number for number in label.ids if number is not None]
    part = " (part)" if label.part else ""
    if len(label.ids) == 1:
        return f"{label.noun}{f' {known[0]}' if known else ''}{part}"
    numbers = format_number_list(sorted(known)) if len(set(known)) == len(label.ids) else ""
    shown = f" {numbers}" if numbers and len(numbers) <= _LONGEST_NUMBERS else ""
    return f"{format_count(len(label.ids), label.noun.lower())}{shown}{part}"


def box_title(box: Box) -> tuple[list[str], list[str]]:
    """Return the names of a box and the rest of its title; the first headline replaces absent names."""
    folded = len(box.members)
    names = [label_text(label) for label in box.labels]
    headline = [f"{text} each" if folded > 1 and names else text for text in box.headline]
    if names:
        return names, headline
    return [f"{folded} × {headline[0]}" if folded > 1 else headline[0]], headline[1:]


def device_name(device: Device) -> str:
    """Format the name of a device, or the count and the range of several."""
    name = format_name_range(device.names)
    return name if len(device.names) == 1 else f"{len(device.names)} × {name}"


def device_text(device: Device) -> str:
    """Format the description of a device, with its state unless it is "up" or "active"."""
    return f"{device.description}, {device.state}" if device.state not in (None, "up", "active") else device.description


def core_count(cores: Cores, parents: int = 1) -> str:
    """Format the number of cores in each of the parent boxes, and the number of threads per core."""
    number, threads = len(cores.cores) // parents, len(cores.cores[0])
    if not cores.known:
        return format_count(number, "CPU") + ("" if "offline" in cores.state else ", cores unknown")
    kind = f"{cores.kind} " if cores.kind else ""
    return format_count(number, f"{kind}core") + (f" × {threads} threads" if threads > 1 else "")


def cpus_text(cpus: CpuSet) -> str:
    """Format a CPU set: "CPU 0" or "CPUs 0-3"."""
    return f"{'CPU' if len(cpus) == 1 else 'CPUs'} {format_cpu_list(cpus)}"


def caches_text(cores: Cores) -> tuple[str, ...]:
    """Return the private caches of each core; the last one ends in "each" if there are several cores."""
    if not cores.caches or len(cores.cores) == 1:
        return cores.caches
    return (*cores.caches[:-1], f"{cores.caches[-1]} each")


def core_phrases(cores: Cores, parents: int) -> Iterator[Span]:
    """Yield phrases about equal cores in one box, or in each of several equal boxes."""
    yield "", core_count(cores, parents) + (" each" if parents > 1 else "")
    if 1 < parents <= _MOST_SETS:
        size = len(cores.cores) // parents
        sets = [cores._replace(cores=cores.cores[start : start + size]) for start in range(0, len(cores.cores), size)]
        yield "cpus", "CPUs " + " | ".join(format_cpu_list(group.cpus) for group in sets)
    else:
        yield "cpus", cpus_text(cores.cpus)
    if cores.caches:
        yield "dim", ", ".join(caches_text(cores))
    if cores.state:
        yield "bad", ", ".join(cores.state)


def memory_phrases(memory: Memory) -> Iterator[Span]:
    """Yield phrases about zones without CPUs."""
    noun = "Zone" if len(memory.zones) == 1 else "Zones"
    yield "zone", f"{noun} {format_number_list(memory.zones)}"
    yield "dim", "no CPUs"
    for fact in memory.facts:
        yield "", fact
