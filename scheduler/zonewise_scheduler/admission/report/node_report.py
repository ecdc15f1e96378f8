"""A NodeResourceTopology object to the state of a node.

From our agent's object all comes exactly. From any other (resource-topology-exporter, Node Feature Discovery's topology
updater, operators) counts are all there is: CPU ids are made up then, policies guessed where nobody says them, and the
kind tells what is unknown. Guesses are such that a pod is rather admitted than refused: groups of memory and devices of
several zones are taken for absent. What is told is believed, though: resource-topology-exporter charges memory that a
pod has of several zones to each of them in full, and less is then available there than the kubelet has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.nrt import names
from zonewise_scheduler.admission.node import NodeKind, NodeState, Policies
from zonewise_scheduler.admission.report.kubelet_policies import read_policies
from zonewise_scheduler.admission.report.nrt_object import read_nrt_object, zone_set_attribute
from zonewise_scheduler.admission.report.reported_cpus import ReportedCpus, read_agent_cpus, synthesize_cpus
from zonewise_scheduler.admission.report.zone_resources import ReportedMemory, read_devices, read_memory
from zonewise_scheduler.admission.resource_names import CPU, is_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.report.interning import KindInterner
    from zonewise_scheduler.admission.report.nrt_object import NrtObject

DEFAULT_RELEASE = Policies().release
_ANNOTATED_FINGERPRINT = "topology.node.k8s.io/fingerprint"
_UNREACHABLE = 255
"""ACPI 6.5, 5.2.17, System Locality Information Table: there is no path."""


class PodsFingerprint(NamedTuple):
    """A fingerprint of the pods that a report has counted."""

    method: str
    """names.ALL_PODS or names.EXCLUSIVE_PODS."""
    value: str


class NodeReport(NamedTuple):
    """What an object says of its node."""

    node: str
    state: NodeState | None
    """None: nothing can be foretold; a problem says why."""
    fingerprints: tuple[PodsFingerprint, ...]
    problems: tuple[str, ...]
    """What in the object is damaged, and why there is no state; each names a field and its value."""
    version: str = ""
    """metadata.resourceVersion."""


def read_nrt(
    nrt: Mapping[str, Any],
    kinds: KindInterner,
    *,
    policies: Policies | None = None,
    release: tuple[int, int] = DEFAULT_RELEASE,
    threads: int | None = None,
) -> NodeReport:
    """Return the state of a node; nothing is raised, and what is damaged is a problem of the report.

    `policies` of the kubelet and `threads` of a core are what is known from elsewhere, for objects that do not tell
    them; `release` is that of the kubelet, of which no object tells.
    """
    parts = read_nrt_object(nrt)
    state = _state(parts, kinds, _Known(policies, release, threads))
    return NodeReport(parts.node, state, _covered(parts), tuple(parts.problems), parts.version)


class _Known(NamedTuple):
    """What is known of a node from elsewhere."""

    policies: Policies | None
    release: tuple[int, int]
    threads: int | None


def _covered(parts: NrtObject) -> tuple[PodsFingerprint, ...]:
    attributes = parts.attributes
    both = [
        PodsFingerprint(method, attributes[name]) for method, name in names.FINGERPRINTS.items() if name in attributes
    ]
    if both:
        return tuple(both)
    value = attributes.get(names.PODS_FINGERPRINT)
    if value is not None:
        return (PodsFingerprint(attributes.get(names.PODS_FINGERPRINT_METHOD, names.ALL_PODS), value),)
    annotated = parts.annotations.get(_ANNOTATED_FINGERPRINT)
    return (PodsFingerprint(names.ALL_PODS, annotated),) if isinstance(annotated, str) else ()


def _state(parts: NrtObject, kinds: KindInterner, known: _Known) -> NodeState | None:
    if not parts.zones:
        parts.problems.append("zones: there is none of type Node that could be read")
        return None
    if parts.attributes.get(names.USAGE) == names.USAGE_UNKNOWN:
        parts.problems.append(f"{names.USAGE}: {names.USAGE_UNKNOWN!r}: no kubelet was asked")
        return None
    policies, unknown = _policies(parts, known.policies, known.release)
    cpus = _cpus(parts, known.threads, static=policies.cpu == "static")
    zones = _zones(parts)
    memory = read_memory(parts, zones, policies.topology) if policies.memory == "Static" else ReportedMemory()
    stock = read_devices(parts)
    distances, far = _distances(parts, zones)
    uncounted = () if parts.from_agent else _uncounted(policies)
    kind = NodeKind(
        policies=policies,
        zones=kinds.intern(zones),
        distances=kinds.intern(distances),
        cpus=kinds.intern_topology(cpus.topology),
        memory_types=kinds.intern(memory.types),
        allocatable=kinds.intern(memory.allocatable),
        devices=kinds.intern(stock.classes),
        unknown=(*unknown, *cpus.unknown, *uncounted, *(far if policies.prefer_closest else ())),
    )
    free, groups, devices = kinds.intern(memory.free), kinds.intern(memory.groups), kinds.intern(stock.free)
    return NodeState(kinds.intern_kind(kind), cpus.free, free, groups, memory.assigned, devices)


def _cpus(parts: NrtObject, threads: int | None, *, static: bool) -> ReportedCpus:
    if parts.from_agent:
        return read_agent_cpus(parts, static=static)
    made_up = synthesize_cpus(parts, threads)
    return made_up if static else ReportedCpus(made_up.topology, 0)


def _uncounted(policies: Policies) -> tuple[str, ...]:
    """Return what counts by zone cannot tell; single-numa-node gives no memory of several zones."""
    alone = policies.memory != "Static" or policies.topology == "single-numa-node"
    groups = () if alone else ("zones that give memory as one",)
    return (*groups, "devices that are ill, or close to several zones or to none")


def _zones(parts: NrtObject) -> tuple[int, ...]:
    """Return all NUMA nodes, those without anything too."""
    found = {zone.id for zone in parts.zones}
    empty = zone_set_attribute(parts, names.EMPTY_ZONES)
    found.update(zone for zone in range(empty.bit_length()) if empty >> zone & 1)
    return tuple(sorted(found))


def _distances(parts: NrtObject, zones: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Return the distances, and what of them is unknown; zones that are no Node zones tell theirs one way only."""
    costs = {zone.id: zone.costs for zone in parts.zones}
    if not any(costs.values()):
        return (), ("the distances of zones",)
    nothing: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for a in zones:
        own = costs.get(a, nothing)
        rows.append(tuple([own[b] if b in own else costs.get(b, nothing).get(a, _UNREACHABLE) for b in zones]))
    far = any(_UNREACHABLE in row for row in rows)
    return tuple(rows), ("some distances of zones",) if far else ()


# --- policies


def _policies(parts: NrtObject, known: Policies | None, release: tuple[int, int]) -> tuple[Policies, tuple[str, ...]]:
    """Return the policies of a node, and what of them is a guess."""
    told = read_policies(parts.attributes, parts.policies, release)
    parts.problems.extend(told.problems)
    if parts.from_agent and names.CPU_MANAGER_POLICY in parts.attributes:
        # the kubelet that runs is believed before its configuration, which may be of its next start
        cpu = _cpu_policy(parts)
        return told.policies if told.policies.cpu == cpu else told.policies._replace(cpu=cpu), ()
    base = told.policies if known is None else known
    guess = base._replace(cpu=_cpu_policy(parts), memory=_memory_policy(parts))
    if known is not None:
        # a manager that gives nothing that the report tells of refuses nothing that could be foretold
        return base._replace(
            cpu="none" if guess.cpu == "none" else base.cpu, memory="None" if guess.memory == "None" else base.memory
        ), _unseen(base, guess)
    policy = (
        ()
        if names.TOPOLOGY_MANAGER_POLICY in parts.attributes or parts.policies
        else ("the Topology Manager's policy",)
    )
    return guess, (*policy, "the policies and options of the CPU Manager and the Memory Manager")


def _unseen(base: Policies, guess: Policies) -> tuple[str, ...]:
    cpus = ("CPUs, which the kubelet gives out",) if base.cpu == "static" and guess.cpu == "none" else ()
    memory = ("memory, which the kubelet gives out",) if base.memory == "Static" and guess.memory == "None" else ()
    return (*cpus, *memory)


def _cpu_policy(parts: NrtObject) -> str:
    """Return the policy that a report looks like: without the static one the kubelet has no CPUs to give."""
    if parts.from_agent:
        return "static" if any(names.FREE_CPUS in zone.attributes for zone in parts.zones) else "none"
    return "static" if any(zone.counts[CPU].allocatable for zone in parts.zones if CPU in zone.counts) else "none"


def _memory_policy(parts: NrtObject) -> str:
    told = any(count.allocatable for zone in parts.zones for name, count in zone.counts.items() if is_memory(name))
    return "Static" if told else "None"
