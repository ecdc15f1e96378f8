"""The kubelet's reports as immutable values: allocations, from the PodResources API and from its checkpoint files.

Zones are the kernel's NUMA node ids. An empty tuple of zones means "no topology known", which is not zone 0.
"""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet

# --- the PodResources API (staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/api.proto)


NO_ZONE = -1
"""The value as device plugins copy it from /sys/bus/pci/devices/*/numa_node."""


class ContainerDevices(NamedTuple):
    """Devices of one resource with the same set of zones.

    The kubelet sends one entry for each device and zone. Entries of one device are joined here.
    """

    resource: str
    ids: tuple[str, ...]
    """Sorted."""
    zones: tuple[int, ...] = ()
    """Zones in ascending order; several if a device is close to several. Empty: the plugin names none. (NO_ZONE,): it
    names only NUMA nodes that no machine has, such as -1."""


class MemoryBlock(NamedTuple):
    """Memory of one type that one container holds or that is allocatable in one zone."""

    type: str
    """"memory", or "hugepages-2Mi" and so on."""
    size: int
    """Bytes in all its zones together: the API does not show how they are split."""
    zones: tuple[int, ...] = ()
    """Ascending."""


class ClaimedDevice(NamedTuple):
    """A device that Dynamic Resource Allocation allocated to a container."""

    driver: str
    pool: str
    device: str
    claim: str
    """"namespace/name" of the ResourceClaim."""
    share: str | None = None


class ContainerResources(NamedTuple):
    """Exclusive resources of one container; restartable init containers count as containers."""

    name: str
    cpus: CpuSet = EMPTY
    devices: tuple[ContainerDevices, ...] = ()
    memory: tuple[MemoryBlock, ...] = ()
    claimed: tuple[ClaimedDevice, ...] = ()


class PodResources(NamedTuple):
    """A pod that the kubelet counts as active."""

    namespace: str
    name: str
    containers: tuple[ContainerResources, ...] = ()
    """The containers. One named "" has the pod's resources beyond its containers: its own pool, under pod-level
    resources (1.37)."""


class Allocatable(NamedTuple):
    """Resources that the kubelet can allocate exclusively to pods, whether allocated now or not.

    They are empty for a while after the kubelet's start: it serves the socket before its managers run. So "no CPUs"
    under the static policy means "not ready", never "none".
    """

    cpus: CpuSet = EMPTY
    devices: tuple[ContainerDevices, ...] = ()
    """Only healthy devices."""
    memory: tuple[MemoryBlock, ...] = ()


# --- checkpoint files under the kubelet's root directory


class CpuManagerState(NamedTuple):
    """cpu_manager_state (pkg/kubelet/cm/cpumanager/state/checkpoint.go)."""

    policy_name: str
    default_cpu_set: CpuSet
    """CPUs of the shared pool, including reserved CPUs."""
    entries: dict[str, dict[str, CpuSet]]
    """Exclusive CPUs by pod UID and container, including ended init containers and rejected pods."""


class MemoryTable(NamedTuple):
    """The bytes of one type of memory in one zone, by use."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    """Bytes assigned to containers."""
    free: int


class NumaNodeState(NamedTuple):
    """The Memory Manager's state of one zone."""

    number_of_assignments: int
    """Number of blocks assigned in it."""
    cells: tuple[int, ...]
    """The group of zones from which memory is allocated as one while anything is assigned; otherwise only this zone."""
    memory_map: dict[str, MemoryTable]
    """Tables by type of memory."""


class MemoryManagerState(NamedTuple):
    """memory_manager_state (pkg/kubelet/cm/memorymanager/state/checkpoint.go)."""

    policy_name: str
    machine_state: dict[int, NumaNodeState]
    """State by zone."""
    entries: dict[str, dict[str, tuple[MemoryBlock, ...]]]
    """Blocks by pod UID and container; entries of deleted pods remain until the next admission."""


class PodDevicesEntry(NamedTuple):
    """Devices of one resource allocated to one container."""

    uid: str
    """UID of the pod."""
    container: str
    resource: str
    ids_by_zone: dict[int, tuple[str, ...]]
    """Device ids by zone. A device close to several zones is listed under each of them; -1 means no topology."""


class DeviceCheckpoint(NamedTuple):
    """device-plugins/kubelet_internal_checkpoint (pkg/kubelet/cm/devicemanager/checkpoint/checkpoint.go)."""

    entries: tuple[PodDevicesEntry, ...]
    registered: dict[str, tuple[str, ...]]
    """Ids of healthy devices by resource."""


class ClaimInfoState(NamedTuple):
    """One prepared ResourceClaim of dra_manager_state (pkg/kubelet/cm/dra/state/checkpoint.go)."""

    namespace: str
    name: str
    pods: tuple[str, ...]
    """UIDs of the pods that use it."""
    devices: tuple[ClaimedDevice, ...]


class StateFiles(NamedTuple):
    """Content of the checkpoint files; None for a file that is absent or unreadable."""

    cpu: CpuManagerState | None = None
    memory: MemoryManagerState | None = None
    devices: DeviceCheckpoint | None = None
    claims: tuple[ClaimInfoState, ...] | None = None

    def pod_uids(self) -> set[str]:
        """Return the UIDs of all pods that have CPUs, memory or devices."""
        entries = [*(self.cpu.entries if self.cpu else ()), *(self.memory.entries if self.memory else ())]
        return {*entries, *(entry.uid for entry in (self.devices.entries if self.devices else ()))}


# --- its configuration


class KubeletConfig(NamedTuple):
    """The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that affect zones, defaults filled in.

    The defaults are those of pkg/kubelet/apis/config/v1beta1/defaults.go.
    """

    cpu_manager_policy: str = "none"
    """"none" or "static"."""
    cpu_manager_options: tuple[tuple[str, str], ...] = ()
    """cpuManagerPolicyOptions, sorted by name."""
    memory_manager_policy: str = "None"
    """"None" or "Static" (Linux)."""
    topology_manager_policy: str = "none"
    """"none", "best-effort", "restricted" or "single-numa-node"."""
    topology_manager_scope: str = "container"
    """"container" or "pod"."""
    topology_manager_options: tuple[tuple[str, str], ...] = ()
    """topologyManagerPolicyOptions, sorted by name."""
    reserved_cpus: CpuSet | None = None
    """reservedSystemCPUs; if None, the kubelet selects as many CPUs as kubeReserved and systemReserved require."""
    reserved_milli_cpus: int = 0
    """CPU of systemReserved + kubeReserved in milli-CPU."""
    reserved_memory: tuple[tuple[int, str, int], ...] = ()
    """reservedMemory as (zone, type, bytes), sorted."""
    feature_gates: tuple[tuple[str, bool], ...] = ()
    """Sorted by name."""

    def max_allowable_numa_nodes(self) -> int:
        """Return the maximum number of NUMA nodes for Topology Manager policies: max-allowable-numa-nodes, or 8."""
        return int(dict(self.topology_manager_options).get("max-allowable-numa-nodes", "8"))


class KubeletReport(NamedTuple):
    """The state of one kubelet at one moment."""

    pods: tuple[PodResources, ...]
    allocatable: Allocatable
    config: KubeletConfig | None = None
    """None if it could not be read."""
    state: StateFiles = StateFiles()
    active: frozenset[str] | None = None
    """UIDs of the pods that have a cgroup, or may not have one yet; None if not known."""
    ended: frozenset[str] = frozenset()
    """UIDs of pods that were listed or had a cgroup before and have ended; a subset of those in the checkpoints."""
    sources_ready: bool = True
    """False if the kubelet has restarted and does not know all of its pods yet (config.SourcesReady). It then releases
    no entry of its checkpoints."""
