"""The names of the attributes of a NodeResourceTopology object: the agent writes them, the scheduler reads them.

Names without a prefix, and those of topology.node.k8s.io, are known to every consumer of the API: scheduler-plugins
(pkg/noderesourcetopology), resource-topology-exporter and Node Feature Discovery's topology updater. Those of
resource.kubernetes.io are the standard ones of Dynamic Resource Allocation, so that rules can move between the two.
Those of zonewise.dev are ours.

The notations of the values are in `attributes`; that of CORES is in `cores`.
"""

from __future__ import annotations

# --- of the node

TOPOLOGY_MANAGER_POLICY = "topologyManagerPolicy"
TOPOLOGY_MANAGER_SCOPE = "topologyManagerScope"
TOPOLOGY_MANAGER_MAX_NUMA_NODES = "topologyManagerMaxNUMANodes"
"""The number of NUMA nodes up to which the Topology Manager works."""

PODS_FINGERPRINT = "nodeTopologyPodsFingerprint"
PODS_FINGERPRINT_METHOD = "nodeTopologyPodsFingerprintMethod"
ALL_PODS = "all"
"""The method that counts every pod."""
EXCLUSIVE_PODS = "with-exclusive-resources"
"""The method that counts the pods that hold something of a zone."""

PLACEMENT_METADATA = "topology.node.k8s.io/numaplacement-metadata"
PLACEMENT_VECTOR = "topology.node.k8s.io/numaplacement-vector"
"""Of a zone."""

USAGE = "zonewise.dev/usage"
"""USAGE_KNOWN or USAGE_UNKNOWN. Unknown: no kubelet was queried, and `available` is that of an idle machine."""
USAGE_KNOWN = "known"
USAGE_UNKNOWN = "unknown"
PROBLEMS = "zonewise.dev/problems"
"""The number of damaged sources of discovery."""

FINGERPRINTS = {
    ALL_PODS: "zonewise.dev/pods-fingerprint-all",
    EXCLUSIVE_PODS: "zonewise.dev/pods-fingerprint-with-exclusive-resources",
}
"""By method: the attributes with both fingerprints, whichever of them PODS_FINGERPRINT is."""

CPU_MANAGER_POLICY = "zonewise.dev/cpu-manager-policy"
CPU_MANAGER_OPTIONS = "zonewise.dev/cpu-manager-options"
"""cpuManagerPolicyOptions as pairs."""
MEMORY_MANAGER_POLICY = "zonewise.dev/memory-manager-policy"
TOPOLOGY_MANAGER_OPTIONS = "zonewise.dev/topology-manager-options"
"""topologyManagerPolicyOptions as pairs."""
RESERVED_CPUS = "zonewise.dev/reserved-cpus"
"""CPUs that the kubelet never gives exclusively, as a CPU list."""
THREADS_PER_CORE = "zonewise.dev/threads-per-core"
"""CPUs by cores, rounded down: the divisor of the CPU Manager's option full-pcpus-only."""
FEATURE_GATES = "zonewise.dev/feature-gates"
"""Those of DECISIVE_GATES that the kubelet's configuration sets, as pairs; absent where it sets none."""
DECISIVE_GATES = frozenset({"PodLevelResourceManagers"})
"""They change what the kubelet gives to pods."""
EMPTY_ZONES = "zonewise.dev/empty-zones"
"""NUMA nodes without CPUs and memory, as a list. They are no zones, but the kubelet's masks have bits for them."""
UNZONED_DEVICES = "zonewise.dev/unzoned"
"""Devices of an unknown zone, as amounts. 0/0/0: the device plugin has no healthy device, and the kubelet rejects every
pod that requests one."""
ABSENT_ZONE_DEVICES = "zonewise.dev/absent-zone-devices"
"""Devices whose plugin names only NUMA nodes that the machine lacks, as amounts by resource and zones: "resource@-1",
"resource@9". The kubelet aligns such a resource, and never finds these devices near any zone. Absent where there are
none."""
MEMORY_ASSIGNED = "zonewise.dev/memory-assigned"
"""NUMA nodes of which the Memory Manager has assigned any memory, as a list; absent where it assigns none."""
SHARED_DEVICES = "zonewise.dev/shared-devices"
"""Devices close to several zones, as amounts by resource and zones. They count in the resources of each of the zones.
Absent where there are none."""
EXCLUDED = "zonewise.dev/excluded"
"""Memory (bytes) and devices of excluded pods, as pairs by resource and zones ("memory@0=1073741824"). The allocatable
amounts lack them, though the kubelet's managers count them as allocatable. Absent where there are none."""
CLAIMED_DEVICES = "zonewise.dev/claimed"
"""Devices held through ResourceClaims: the count by driver, as pairs."""

# --- of a zone of type Node, MemoryOnly, DeviceMemory or NodeBeyondLimit

CPUS = "zonewise.dev/cpus"
"""As a CPU list; of a package and an L3 group too."""
CORES = "zonewise.dev/cores"
"""Which of its CPUs are one core; absent where every CPU is a core of its own."""
FREE_CPUS = "zonewise.dev/free-cpus"
"""The CPUs behind the available amount of cpu, as a CPU list; absent where the kubelet gives none exclusively."""
MEMORY_GROUP = "zonewise.dev/memory-group"
"""The zones from which the Memory Manager gives memory as one at present, ascending; itself where it is alone."""
HOLDINGS = "zonewise.dev/holdings"
"""What each pod holds of the zone, in the notation of `holdings`; of the node: what each holds of no zone. Absent where
no kubelet was asked."""
AMOUNTS = "zonewise.dev/amounts"
"""What the kubelet can give of a zone that is no Node zone and so has no resources, as amounts."""
MEMORY = "zonewise.dev/memory"
"""Bytes; of a GPU too."""
MEDIUM = "zonewise.dev/medium"
LOCAL_CPUS = "zonewise.dev/local-cpus"
TIER = "zonewise.dev/tier"
DEVICE = "zonewise.dev/device"
"""The PCI address of the device whose memory the zone is."""
INITIATORS = "zonewise.dev/initiators"
READ_BANDWIDTH = "zonewise.dev/read-bandwidth-mbps"
READ_LATENCY = "zonewise.dev/read-latency-ns"

# --- of a package, an L3 group, a GPU or a NIC

MODEL = "zonewise.dev/model"
CACHE_SIZE = "zonewise.dev/size"
"""Bytes."""
PCI_ROOT = "resource.kubernetes.io/pcieRoot"
PCI_ADDRESS = "resource.kubernetes.io/pciBusID"
NUMA_NODE = "resource.kubernetes.io/numaNode"
VENDOR = "zonewise.dev/vendor"
UUID = "zonewise.dev/uuid"
NEAREST_NICS = "zonewise.dev/nearest-nics"
NEAREST_NICS_RELATION = "zonewise.dev/nearest-nics-relation"
NETDEV = "zonewise.dev/netdev"
RDMA = "zonewise.dev/rdma"
LINK_LAYER = "zonewise.dev/link-layer"
RATE = "zonewise.dev/rate-gbps"
HEALTH = "zonewise.dev/health"
"""What is wrong with a GPU or NIC: "failed: xid-79 (hardware)" is the severity, the rule and the verdict. Absent where
nothing is wrong, and where health is off."""
