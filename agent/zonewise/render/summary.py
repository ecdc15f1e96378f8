"""Facts about the whole machine: the header, the distances of its zones, and the notes below the picture."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from zonewise.render.cores import cpus_in_state
from zonewise.render.devices import GpuNames, gpu_model
from zonewise.render.formatting import format_bytes, format_count, format_cpu_list, model_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from zonewise.machine.model.machine import Machine
    from zonewise.render.boxes import Device
    from zonewise_common.k8s.cpuset import CpuSet

_MOST_DISTANCES = 16  # zones; a larger table does not fit on a screen, and `-o json` contains it


def title(machine: Machine) -> tuple[str, ...]:
    """Return the product, or else the processor model or the architecture, and the host name if known."""
    model = model_name(machine.model.name) if machine.model.name else f"{machine.architecture or 'Linux'} machine"
    return tuple(text for text in (machine.product or model, machine.hostname) if text)


def facts(machine: Machine) -> tuple[tuple[str, ...], ...]:
    """Return the lines of the header, each of several phrases."""
    lines = (_system(machine), (*_processors(machine), *_graphics(machine)), _restrictions(machine))
    return tuple(line for line in lines if line)


def _system(machine: Machine) -> tuple[str, ...]:
    virtual = machine.virtualization
    guest = f"{virtual.hypervisor or 'unknown'} guest" if virtual.guest else ""
    container = f"in a container ({virtual.container})" if virtual.container else ""
    kernel = f"Linux {machine.kernel.release}" if machine.kernel.release else ""
    return tuple(text for text in (machine.architecture, kernel, guest, container) if text)


def _processors(machine: Machine) -> tuple[str, ...]:
    cpus = len(machine.cpus.online)
    counts = (
        format_count(cpus, "CPU") if cpus else "",
        format_count(len(machine.cores), "core") if machine.cores else "",
        format_count(len(machine.packages), "package") if machine.packages else "",
        _zones(machine),
        f"{format_bytes(machine.memory)} memory" if machine.memory else "",
    )
    return tuple(text for text in counts if text)


def _zones(machine: Machine) -> str:
    bare = sum(not zone.cpus for zone in machine.zones)
    if not machine.zones:
        return "zones unknown"
    return format_count(len(machine.zones), "zone") + (f" ({bare} without CPUs)" if bare else "")


def _graphics(machine: Machine) -> tuple[str, ...]:
    functions = {function.address: function for function in machine.pci}
    models = Counter(gpu_model(gpu, functions.get(gpu.address or "")) for gpu in machine.gpus)
    return tuple(f"{number} × {model}" if number > 1 else model for model, number in models.items())


def _restrictions(machine: Machine) -> tuple[str, ...]:
    states: dict[CpuSet, list[str]] = {}
    for name, cpus in cpus_in_state(machine):
        states.setdefault(cpus, []).append("not allowed for this process" if name == "not allowed" else name)
    return tuple(
        f"{format_count(len(cpus), 'CPU')} {' and '.join(names)}: {format_cpu_list(cpus)}"
        for cpus, names in states.items()
    )


def distances(machine: Machine) -> tuple[tuple[int, tuple[int | None, ...]], ...]:
    """Return the SLIT rows of the zones; none if two numbers suffice, or if distances are unknown or too many."""
    if len(machine.zones) > _MOST_DISTANCES or not any(zone.distances for zone in machine.zones):
        return ()
    own, between = _distance_values(machine)
    if len(own) == 1 and len(between) <= 1:
        return ()
    ids = [str(zone.id) for zone in machine.zones]
    return tuple((zone.id, tuple(zone.distances.get(column) for column in ids)) for zone in machine.zones)


def _distance_values(machine: Machine) -> tuple[set[int | None], set[int | None]]:
    """Return the values on the diagonal of the SLIT, and all others."""
    ids = [str(zone.id) for zone in machine.zones]
    own = {zone.distances.get(str(zone.id)) for zone in machine.zones}
    between = {zone.distances.get(column) for zone in machine.zones for column in ids if column != str(zone.id)}
    return own, between


def _even_distances(machine: Machine) -> Iterator[str]:
    """Yield a phrase with the distances within and between zones, if two numbers apply to all zones."""
    own, between = _distance_values(machine)
    if len(own) == len(between) == 1 and None not in own | between:
        yield f"Distances: {own.pop()} within a zone, {between.pop()} between zones"


# --- notes


def notes(machine: Machine, devices: Sequence[Device]) -> tuple[str, ...]:
    """Return the phrases below the picture; `devices`: the devices in the picture."""
    slower = next((device.link for device in devices if device.link and "/" in device.link), None)
    software = [nic for nic in machine.nics if nic.virtual and nic.name != "lo"]
    left_out = len(software) + sum(not device.address for device in machine.infiniband)
    problems = len(machine.problems)
    return (
        *_even_distances(machine),
        *_nvlinks(machine),
        *_fabrics(machine),
        *(
            (f"{slower}: a link that runs slower (idle devices save power) or narrower than it could",)
            if slower
            else ()
        ),
        *((f"{format_count(left_out, 'software network device')} not shown",) if left_out else ()),
        *((f"{format_count(problems, 'problem')} with the sources",) if problems else ()),
    )


def _nvlinks(machine: Machine) -> Iterator[str]:
    """Yield which GPUs are linked by NVLink or XGMI, with GPUs that have equal partners in one phrase."""
    names = GpuNames(machine)
    pairs = {
        frozenset((link.a, link.b)): link.relation
        for link in machine.links
        if link.relation is not None and link.relation.startswith("NV")
    }
    yield from _clique_notes("NVLink", pairs, names)
    if not pairs:
        yield from _switch_notes(machine, names)
    yield from _clique_notes("XGMI", dict(_xgmi_pairs(machine)), names)


def _xgmi_pairs(machine: Machine) -> Iterator[tuple[frozenset[str], str]]:
    for gpu in machine.gpus:
        for peer in gpu.xgmi:
            if gpu.address and gpu.address != peer.address:
                yield frozenset((gpu.address, peer.address)), format_count(peer.links, "link") if peer.links else ""


def _clique_notes(what: str, pairs: dict[frozenset[str], str], names: GpuNames) -> Iterator[str]:
    for group, relation in _cliques(pairs):
        how = "all connected to each other" if len(group) > 2 else "connected to each other"
        by = f" by {relation}" if relation else ""
        yield f"{what}: {names.name_group(group)}, {how}{by}"


def _cliques(pairs: dict[frozenset[str], str]) -> Iterator[tuple[Sequence[str], str]]:
    """Yield sets of GPUs in which every two have the same relation; pairs if there is no larger set."""
    remaining = {pair: relation for pair, relation in pairs.items() if len(pair) == 2}
    addresses = sorted({address for pair in remaining for address in pair})
    while remaining:
        pair, relation = next(iter(remaining.items()))
        group = sorted(pair)
        for second in addresses:
            if second not in group and all(remaining.get(frozenset((second, first))) == relation for first in group):
                group.append(second)
        for first in group:
            for second in group:
                remaining.pop(frozenset((first, second)), None)
        yield sorted(group), relation


def _switch_notes(machine: Machine, names: GpuNames) -> Iterator[str]:
    """Yield how many links GPUs have to all devices of one kind, with GPUs that have equally many in one phrase."""
    alike: dict[tuple[str, int, int], list[str | None]] = {}
    for gpu in machine.gpus:
        for kind in dict.fromkeys(peer.kind for peer in gpu.nvlinks):
            links = [peer.links for peer in gpu.nvlinks if peer.kind == kind]
            alike.setdefault((kind, sum(links), len(links)), []).append(gpu.address)
    for (kind, count, ends), group in alike.items():
        switches = "an NVLink switch" if ends == 1 else f"{ends} NVLink switches"
        to = {"switch": switches, "npu": "a CPU"}.get(kind, "unknown devices")
        each = " each" if len(group) > 1 else ""
        yield f"NVLink: {names.name_group(group)}, {format_count(count, 'link')}{each} to {to}"


def _fabrics(machine: Machine) -> Iterator[str]:
    alike: dict[tuple[str, int | None], int] = {}
    for gpu in machine.gpus:
        if gpu.fabric and gpu.fabric.attached and gpu.fabric.cluster_uuid:
            key = (gpu.fabric.cluster_uuid, gpu.fabric.clique)
            alike[key] = alike.get(key, 0) + 1
    for (uuid, clique), count in alike.items():
        yield f"NVLink domain {uuid}, clique {clique}: {format_count(count, 'GPU')} of this machine"
