"""The names that a NodeResourceTopology object is read by: what the agent writes, the scheduler looks up.

Those without a prefix, and those of topology.node.k8s.io, are known to every consumer of the API (the study of
resource-topology-exporter, scheduler-plugins and Node Feature Discovery); those of zonewise.dev are ours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# --- of the node

TOPOLOGY_MANAGER_POLICY = "topologyManagerPolicy"
TOPOLOGY_MANAGER_SCOPE = "topologyManagerScope"
TOPOLOGY_MANAGER_MAX_NUMA_NODES = "topologyManagerMaxNUMANodes"
"""Up to how many NUMA nodes the Topology Manager works on."""

PODS_FINGERPRINT = "nodeTopologyPodsFingerprint"
PODS_FINGERPRINT_METHOD = "nodeTopologyPodsFingerprintMethod"
ALL_PODS = "all"
"""The method that counts every pod."""
EXCLUSIVE_PODS = "with-exclusive-resources"
"""The method that counts pods holding something of a zone."""

PLACEMENT_METADATA = "topology.node.k8s.io/numaplacement-metadata"
PLACEMENT_VECTOR = "topology.node.k8s.io/numaplacement-vector"
"""Of a zone."""

USAGE = "zonewise.dev/usage"
"""USAGE_KNOWN, or USAGE_UNKNOWN: no kubelet was asked, and available repeats what an idle machine could give."""
USAGE_KNOWN = "known"
USAGE_UNKNOWN = "unknown"
PROBLEMS = "zonewise.dev/problems"
"""How much in the sources of discovery was damaged."""

FINGERPRINTS = {
    ALL_PODS: "zonewise.dev/pods-fingerprint-all",
    EXCLUSIVE_PODS: "zonewise.dev/pods-fingerprint-with-exclusive-resources",
}
"""By method: the attributes with both fingerprints, whichever of them PODS_FINGERPRINT is."""

CPU_MANAGER_POLICY = "zonewise.dev/cpu-manager-policy"
CPU_MANAGER_OPTIONS = "zonewise.dev/cpu-manager-options"
"""cpuManagerPolicyOptions as "name=value", sorted, separated by commas; so are the Topology Manager's."""
MEMORY_MANAGER_POLICY = "zonewise.dev/memory-manager-policy"
TOPOLOGY_MANAGER_OPTIONS = "zonewise.dev/topology-manager-options"
RESERVED_CPUS = "zonewise.dev/reserved-cpus"
"""CPUs that the kubelet gives to nobody exclusively, as a CPU list."""
THREADS_PER_CORE = "zonewise.dev/threads-per-core"
"""CPUs by cores, rounded down: the number that the CPU Manager's full-pcpus-only divides by."""
FEATURE_GATES = "zonewise.dev/feature-gates"
"""Those of DECISIVE_GATES that the kubelet is told, as pairs; absent where it has its defaults."""
DECISIVE_GATES = frozenset({"PodLevelResourceManagers"})
"""They change what the kubelet gives to pods."""
EMPTY_ZONES = "zonewise.dev/empty-zones"
"""NUMA nodes that have nothing, and so are no zones here, as a list: the kubelet's masks have places for them."""
UNZONED_DEVICES = "zonewise.dev/unzoned"
"""Devices of which nobody knows a zone: "resource=capacity/allocatable/available", sorted, separated by commas; with
0/0/0 those of a device plugin that has no healthy ones, for which the kubelet refuses every pod that names them."""
MEMORY_ASSIGNED = "zonewise.dev/memory-assigned"
"""NUMA nodes of which the Memory Manager has assigned any memory, as a list; absent where it assigns none."""
SHARED_DEVICES = "zonewise.dev/shared-devices"
"""Devices that are close to several zones, and so are counted in the resources of each of them: as UNZONED with the
zones after the resource, "resource@0+1=capacity/allocatable/available"; absent where there are none."""
CLAIMED_DEVICES = "zonewise.dev/claimed"
"""Devices held through ResourceClaims: "driver=count", sorted, separated by commas."""

# --- of a zone

CPUS = "zonewise.dev/cpus"
CORES = "zonewise.dev/cores"
"""Which of its CPUs are one core, as topology.cores has it; absent where every CPU is a core of its own."""
FREE_CPUS = "zonewise.dev/free-cpus"
"""The CPUs behind the available amount of cpu, as a CPU list; absent where the kubelet gives none exclusively."""
MEMORY_GROUP = "zonewise.dev/memory-group"
"""The zones from which the Memory Manager gives memory as one at present, ascending; itself where it is alone."""
AMOUNTS = "zonewise.dev/amounts"
"""What the kubelet can give of a zone that is no Node zone, and so has no resources: written as UNZONED."""


def write_pairs(pairs: Mapping[str, object]) -> str:
    """Return "name=value" by name, separated by commas."""
    return ",".join(f"{name}={pairs[name]}" for name in sorted(pairs))


def read_pairs(text: str) -> dict[str, str]:
    """Return what write_pairs() wrote; raise ValueError, naming the part, for a part that is no pair."""
    found: dict[str, str] = {}
    for part in text.split(",") if text else ():
        name, equals, value = part.partition("=")
        if not equals:
            raise ValueError(f"not name=value: {part[:80]!r}")
        found[name] = value
    return found
