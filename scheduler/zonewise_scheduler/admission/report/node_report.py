"""Conversion of a NodeResourceTopology object into the state of its node.

Our agent's object is complete. Any other object (resource-topology-exporter, Node Feature Discovery's topology updater,
operators) has only counts. CPU ids are then invented, absent policies are guessed, and the kind lists the unknown
facts.

- If in doubt, guesses lead to admission: memory groups and devices near several zones count as absent.
- Reported numbers are not corrected. If a pod has memory from several zones, resource-topology-exporter subtracts all
  of it from each zone. Its reports then show less memory than the kubelet has available.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.tolerant import shortened
from zonewise_common.nrt import names
from zonewise_common.nrt.holdings import NODE
from zonewise_scheduler.admission.admit import MASK_BITS
from zonewise_scheduler.admission.node import NodeKind, NodeState, Policies
from zonewise_scheduler.admission.report.kubelet_policies import read_policies
from zonewise_scheduler.admission.report.nrt_object import read_nrt_object, zone_set_attribute
from zonewise_scheduler.admission.report.reported_cpus import ReportedCpus, read_agent_cpus, synthesize_cpus
from zonewise_scheduler.admission.report.zone_resources import (
    ZONE_GROUPS,
    ReportedMemory,
    excessive_resources,
    read_devices,
    read_memory,
)
from zonewise_scheduler.admission.resource_names import CPU, is_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.admission.report.interning import KindInterner
    from zonewise_scheduler.admission.report.nrt_object import NrtObject

DEFAULT_RELEASE = Policies().release
_ANNOTATED_FINGERPRINT = "topology.node.k8s.io/fingerprint"
_UNREACHABLE = 255
"""Distance between zones without a path (ACPI 6.5, 5.2.17, System Locality Information Table)."""


class PodsFingerprint(NamedTuple):
    """A fingerprint of the pods that a report includes."""

    method: str
    """names.ALL_PODS or names.EXCLUSIVE_PODS."""
    value: str


class NodeReport(NamedTuple):
    """The information that an object contains about its node."""

    node: str
    state: NodeState | None
    """None: no admission can be predicted; `problems` has the reason."""
    fingerprints: tuple[PodsFingerprint, ...]
    problems: tuple[str, ...]
    """Damaged fields with their values, and the reason if there is no state."""
    version: str = ""
    """metadata.resourceVersion."""
    holdings: tuple[tuple[int, str], ...] | None = None
    """Resources that each pod holds: the texts of nrt.holdings by zone, not yet parsed. None: the report lacks them."""
    is_polled: bool = False
    """True: an agent other than ours wrote the object. That agent may poll its kubelet, by default once a minute:
    resource-topology-exporter (--sleep-interval) and Node Feature Discovery's topology updater (-sleep-interval)."""


def read_nrt(
    nrt: Mapping[str, Any],
    interner: KindInterner,
    *,
    policies: Policies | None = None,
    release: tuple[int, int] = DEFAULT_RELEASE,
    threads: int | None = None,
) -> NodeReport:
    """Return the report on a node. Damage in the object raises no error, but becomes a problem of the report.

    `policies` (of the kubelet) and `threads` (per core) supply facts that the object lacks. `release` is the kubelet's
    release, which no object contains.
    """
    nrt_object = read_nrt_object(nrt)
    state = _state(nrt_object, interner, _KubeletFacts(policies, release, threads))
    return NodeReport(
        nrt_object.node,
        state,
        _fingerprints(nrt_object),
        tuple(nrt_object.problems),
        nrt_object.version,
        _holdings(nrt_object),
        is_polled=not nrt_object.from_agent,
    )


class _KubeletFacts(NamedTuple):
    """Facts about the kubelet from sources other than the report."""

    policies: Policies | None
    release: tuple[int, int]
    threads: int | None


def _fingerprints(nrt: NrtObject) -> tuple[PodsFingerprint, ...]:
    attributes = nrt.attributes
    agent_fingerprints = [
        PodsFingerprint(method, attributes[name]) for method, name in names.FINGERPRINTS.items() if name in attributes
    ]
    if agent_fingerprints:
        return tuple(agent_fingerprints)
    value = attributes.get(names.PODS_FINGERPRINT)
    if value is not None:
        return (PodsFingerprint(attributes.get(names.PODS_FINGERPRINT_METHOD, names.ALL_PODS), value),)
    annotated = nrt.annotations.get(_ANNOTATED_FINGERPRINT)
    return (PodsFingerprint(names.ALL_PODS, annotated),) if isinstance(annotated, str) else ()


def _holdings(nrt: NrtObject) -> tuple[tuple[int, str], ...] | None:
    node = nrt.attributes.get(names.HOLDINGS)
    if node is None:
        return None
    zones = ((zone.id, zone.attributes.get(names.HOLDINGS)) for zone in nrt.zones)
    texts = [(zone, text) for zone, text in zones if text]
    return (*texts, (NODE, node)) if node else tuple(texts)


def _state(nrt: NrtObject, interner: KindInterner, known: _KubeletFacts) -> NodeState | None:
    if not nrt.zones:
        nrt.problems.append("zones: no zone of type Node could be read")
        return None
    if nrt.attributes.get(names.USAGE) == names.USAGE_UNKNOWN:
        nrt.problems.append(f"{names.USAGE}: {names.USAGE_UNKNOWN!r}: no kubelet was queried")
        return None
    policies, unknown = _policies(nrt, known.policies, known.release)
    cpus = _cpus(nrt, known.threads, policies)
    zones = _zones(nrt)
    memory = read_memory(nrt, zones, policies.topology) if policies.memory == "Static" else ReportedMemory()
    devices = read_devices(nrt)
    if excessive := excessive_resources(memory, devices):
        nrt.problems.append(f"zones: more than any node has: {shortened(', '.join(excessive))!r}")
        return None
    distances, unknown_distances = _distances(nrt, zones)
    uncounted = () if nrt.from_agent else _uncountable(policies)
    kind = NodeKind(
        policies=policies,
        zones=interner.intern(zones),
        distances=interner.intern(distances),
        cpus=interner.intern_topology(cpus.topology),
        memory_types=interner.intern(memory.types),
        allocatable=interner.intern(memory.allocatable),
        devices=interner.intern(devices.classes),
        unknown=(
            *unknown,
            *cpus.unknown,
            *memory.unknown,
            *uncounted,
            *(unknown_distances if policies.prefer_closest else ()),
        ),
    )
    return NodeState(
        kind=interner.intern_kind(kind),
        free_cpus=cpus.free,
        memory_free=interner.intern(memory.free),
        memory_groups=interner.intern(memory.groups),
        memory_assigned=memory.assigned,
        device_free=interner.intern(devices.free),
    )


def _cpus(nrt: NrtObject, threads: int | None, policies: Policies) -> ReportedCpus:
    if nrt.from_agent:
        return read_agent_cpus(nrt, policies)
    synthesized = synthesize_cpus(nrt, threads)
    return synthesized if policies.cpu == "static" else ReportedCpus(synthesized.topology, 0)


def _uncountable(policies: Policies) -> tuple[str, ...]:
    """Return the facts that counts by zone cannot show; single-numa-node never allocates memory from several zones."""
    single_zones = policies.memory != "Static" or policies.topology == "single-numa-node"
    groups = () if single_zones else (ZONE_GROUPS,)
    return (*groups, "devices that are unhealthy, or close to several zones or to none")


def _zones(nrt: NrtObject) -> tuple[int, ...]:
    """Return all NUMA nodes, empty ones included."""
    zones = {zone.id for zone in nrt.zones}
    empty = zone_set_attribute(nrt, names.EMPTY_ZONES)
    zones.update(zone for zone in range(empty.bit_length()) if empty >> zone & 1)
    return tuple(sorted(zones))


def _distances(nrt: NrtObject, zones: tuple[int, ...]) -> tuple[tuple[tuple[int, ...], ...], tuple[str, ...]]:
    """Return the distances, and a note if some are unknown.

    Zones of types other than Node have distances in only one direction. If the kubelet's masks cannot hold all zones of
    a node, no distance matters.
    """
    if zones[-1] >= MASK_BITS:
        return (), ()
    costs = {zone.id: zone.costs for zone in nrt.zones}
    if not any(costs.values()):
        return (), ("the distances of zones",)
    no_costs: dict[int, int] = {}
    rows: list[tuple[int, ...]] = []
    for a in zones:
        row = costs.get(a, no_costs)
        rows.append(tuple([row[b] if b in row else costs.get(b, no_costs).get(a, _UNREACHABLE) for b in zones]))
    unreachable = any(_UNREACHABLE in distances for distances in rows)
    return tuple(rows), ("some distances of zones",) if unreachable else ()


# --- policies


def _policies(
    nrt: NrtObject, configured: Policies | None, release: tuple[int, int]
) -> tuple[Policies, tuple[str, ...]]:
    """Return the policies of a node, and which of them are guesses."""
    reported = read_policies(nrt.attributes, nrt.policies, release)
    nrt.problems.extend(reported.problems)
    if nrt.from_agent and names.CPU_MANAGER_POLICY in nrt.attributes:
        # the running kubelet matters, not its configuration, which may apply only after a restart
        return reported.policies._replace(cpu=_cpu_policy(nrt)), ()
    base = reported.policies if configured is None else configured
    guess = base._replace(cpu=_cpu_policy(nrt), memory=_memory_policy(nrt))
    if configured is not None:
        # rejections by a manager whose allocations the report lacks cannot be predicted
        cpu = "none" if guess.cpu == "none" else base.cpu
        memory = "None" if guess.memory == "None" else base.memory
        return base._replace(cpu=cpu, memory=memory), _unreported(base, guess)
    reports_policy = names.TOPOLOGY_MANAGER_POLICY in nrt.attributes or nrt.policies
    unknown = () if reports_policy else ("the Topology Manager's policy",)
    return guess, (*unknown, "the policies and options of the CPU Manager and the Memory Manager")


def _unreported(base: Policies, guess: Policies) -> tuple[str, ...]:
    cpus = ("the CPUs that the kubelet allocates",) if base.cpu == "static" and guess.cpu == "none" else ()
    memory = ("the memory that the kubelet allocates",) if base.memory == "Static" and guess.memory == "None" else ()
    return (*cpus, *memory)


def _cpu_policy(nrt: NrtObject) -> str:
    """Return the likely policy of the CPU Manager: without policy static, the kubelet has no CPUs to allocate."""
    if nrt.from_agent:
        return "static" if any(names.FREE_CPUS in zone.attributes for zone in nrt.zones) else "none"
    return "static" if any(zone.resources[CPU].allocatable for zone in nrt.zones if CPU in zone.resources) else "none"


def _memory_policy(nrt: NrtObject) -> str:
    allocatable = any(
        count.allocatable for zone in nrt.zones for name, count in zone.resources.items() if is_memory(name)
    )
    return "Static" if allocatable else "None"
