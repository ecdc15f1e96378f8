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
"""Policy of the Topology Manager."""
TOPOLOGY_MANAGER_SCOPE = "topologyManagerScope"
"""Scope of the Topology Manager: container or pod."""
TOPOLOGY_MANAGER_MAX_NUMA_NODES = "topologyManagerMaxNUMANodes"
"""Largest number of NUMA nodes with which the Topology Manager works."""

PODS_FINGERPRINT = "nodeTopologyPodsFingerprint"
"""Fingerprint of the pods that the report includes."""
PODS_FINGERPRINT_METHOD = "nodeTopologyPodsFingerprintMethod"
"""Method of that fingerprint, which decides the pods that it covers: all or with-exclusive-resources."""
ALL_PODS = "all"
"""Value of nodeTopologyPodsFingerprintMethod for the method that covers every pod."""
EXCLUSIVE_PODS = "with-exclusive-resources"
"""Value of nodeTopologyPodsFingerprintMethod for the method that covers only pods with resources of a zone."""

PLACEMENT_METADATA = "topology.node.k8s.io/numaplacement-metadata"
"""Metadata of the NUMA placement vectors."""
PLACEMENT_VECTOR = "topology.node.k8s.io/numaplacement-vector"
"""NUMA placement of containers in a zone."""

USAGE = "zonewise.dev/usage"
"""known or unknown. If unknown, no kubelet was queried, and `available` is that of an idle machine."""
USAGE_KNOWN = "known"
"""Value of zonewise.dev/usage if a kubelet was queried."""
USAGE_UNKNOWN = "unknown"
"""Value of zonewise.dev/usage if no kubelet was queried."""
PROBLEMS = "zonewise.dev/problems"
"""Number of damaged sources that discovery found."""

NODE_GUIDS = "zonewise.dev/node-guids"
"""Node GUIDs of the InfiniBand adapters, as a list of hexadecimal numbers. They identify the node in a dump of the
fabric. Absent if there are none."""

FINGERPRINT_OF_ALL_PODS = "zonewise.dev/pods-fingerprint-all"
"""Fingerprint of all pods, whatever nodeTopologyPodsFingerprint covers."""
FINGERPRINT_OF_EXCLUSIVE_PODS = "zonewise.dev/pods-fingerprint-with-exclusive-resources"
"""Fingerprint of the pods with resources of a zone, whatever nodeTopologyPodsFingerprint covers."""
FINGERPRINTS = {ALL_PODS: FINGERPRINT_OF_ALL_PODS, EXCLUSIVE_PODS: FINGERPRINT_OF_EXCLUSIVE_PODS}
"""Attributes by method."""

CPU_MANAGER_POLICY = "zonewise.dev/cpu-manager-policy"
"""Policy of the CPU Manager."""
CPU_MANAGER_OPTIONS = "zonewise.dev/cpu-manager-options"
"""cpuManagerPolicyOptions, as pairs."""
MEMORY_MANAGER_POLICY = "zonewise.dev/memory-manager-policy"
"""Policy of the Memory Manager."""
TOPOLOGY_MANAGER_OPTIONS = "zonewise.dev/topology-manager-options"
"""topologyManagerPolicyOptions, as pairs."""
RESERVED_CPUS = "zonewise.dev/reserved-cpus"
"""CPUs that the kubelet never allocates exclusively, as a CPU list."""
THREADS_PER_CORE = "zonewise.dev/threads-per-core"
"""Number of CPUs divided by number of cores, rounded down: the divisor for the CPU Manager's option full-pcpus-only."""
FEATURE_GATES = "zonewise.dev/feature-gates"
"""Feature gates in the kubelet's configuration that change allocations, as pairs. Absent if it sets none."""
DECISIVE_GATES = frozenset({"PodLevelResourceManagers"})
"""Feature gates that change what the kubelet allocates to pods."""
EMPTY_ZONES = "zonewise.dev/empty-zones"
"""NUMA nodes without CPUs and memory, as a list. They are not zones, but the kubelet's masks contain bits for them."""
UNZONED_DEVICES = "zonewise.dev/unzoned"
"""Devices of an unknown zone, as amounts. 0/0/0 means that the device plugin has no healthy device. The kubelet then
rejects every pod that requests one."""
ABSENT_ZONE_DEVICES = "zonewise.dev/absent-zone-devices"
"""Devices whose plugin names only NUMA nodes that the machine lacks, as amounts by resource and zones: "resource@-1",
"resource@9". The kubelet aligns such a resource, but finds these devices near no zone. Absent if there are none."""
MEMORY_ASSIGNED = "zonewise.dev/memory-assigned"
"""NUMA nodes with memory that the Memory Manager has assigned, as a list. Absent if it assigns none."""
SHARED_DEVICES = "zonewise.dev/shared-devices"
"""Devices close to several zones, as amounts by resource and zones. The resources of each of these zones include them.
Absent if there are none."""
EXCLUDED = "zonewise.dev/excluded"
"""Memory (bytes) and devices of excluded pods, as pairs by resource and zones ("memory@0=1073741824"). The allocatable
amounts exclude them, although the kubelet's managers count them as allocatable. Absent if there are none."""
CLAIMED_DEVICES = "zonewise.dev/claimed"
"""Number of devices held through ResourceClaims by driver, as pairs."""

# --- of a zone of type Node, MemoryOnly, DeviceMemory or NodeBeyondLimit

CPUS = "zonewise.dev/cpus"
"""CPUs of a zone, a package or an L3 group, as a CPU list."""
CORES = "zonewise.dev/cores"
"""CPUs of the zone that share a core. Absent if each CPU is a core of its own."""
FREE_CPUS = "zonewise.dev/free-cpus"
"""CPUs in the available amount of cpu, as a CPU list. Absent if the kubelet allocates none exclusively."""
MEMORY_GROUP = "zonewise.dev/memory-group"
"""Zones from which the Memory Manager allocates memory together at present, ascending. A zone on its own names
itself."""
HOLDINGS = "zonewise.dev/holdings"
"""Resources of the zone that each pod holds, in the notation of `holdings`. On the node: resources that belong to no
zone. Absent if no kubelet was queried."""
AMOUNTS = "zonewise.dev/amounts"
"""Amounts that the kubelet can allocate from a zone that is not of type Node and so has no resources."""
MEMORY = "zonewise.dev/memory"
"""Memory of a zone or a GPU in bytes."""
MEDIUM = "zonewise.dev/medium"
"""Medium of the zone's memory."""
LOCAL_CPUS = "zonewise.dev/local-cpus"
"""CPUs nearest to the memory, as a CPU list."""
TIER = "zonewise.dev/tier"
"""Memory tier of the kernel; lower tiers are faster."""
DEVICE = "zonewise.dev/device"
"""PCI address of the device whose memory forms the zone."""
INITIATORS = "zonewise.dev/initiators"
"""Zones with the best access to the memory."""
READ_BANDWIDTH = "zonewise.dev/read-bandwidth-mbps"
"""Read bandwidth of these initiators in MB/s."""
READ_LATENCY = "zonewise.dev/read-latency-ns"
"""Read latency of these initiators in nanoseconds."""

# --- of a package, an L3 group, a GPU or a NIC

MODEL = "zonewise.dev/model"
"""Model of a package or a GPU."""
CACHE_SIZE = "zonewise.dev/size"
"""Size of an L3 cache in bytes."""
PCI_ROOT = "resource.kubernetes.io/pcieRoot"
"""Host bridge of a device, the root of its PCI hierarchy."""
PCI_ADDRESS = "resource.kubernetes.io/pciBusID"
"""PCI address of a device."""
NUMA_NODE = "resource.kubernetes.io/numaNode"
"""NUMA node of a device."""
VENDOR = "zonewise.dev/vendor"
"""Vendor of a GPU."""
UUID = "zonewise.dev/uuid"
"""UUID of a GPU."""
NEAREST_NICS = "zonewise.dev/nearest-nics"
"""NICs nearest to a GPU."""
NEAREST_NICS_RELATION = "zonewise.dev/nearest-nics-relation"
"""Relation of the GPU to these NICs, such as PIX or NODE."""
NETDEV = "zonewise.dev/netdev"
"""Network devices of a NIC."""
RDMA = "zonewise.dev/rdma"
"""RDMA devices of a NIC."""
LINK_LAYER = "zonewise.dev/link-layer"
"""Link layers of a NIC."""
RATE = "zonewise.dev/rate-gbps"
"""Rate of the fastest port in Gb/s."""
HEALTH = "zonewise.dev/health"
"""Fault of a GPU or NIC: "failed: xid-79 (hardware)" is the severity, the rule and the verdict. Absent if there is no
fault, or health is off."""
