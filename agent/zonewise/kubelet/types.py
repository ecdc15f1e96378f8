"""What the kubelet reports, as immutable values: allocations, by the PodResources API and by its checkpoint files.

Zones are the kernel's NUMA node ids. An empty tuple of zones means "no topology known", which is not zone 0.
"""

from typing import NamedTuple

from zonewise_common.k8s.cpuset import EMPTY, CpuSet

# --- the PodResources API (staging/src/k8s.io/kubelet/pkg/apis/podresources/v1/api.proto)


NO_ZONE = -1
"""As device plugins copy it from /sys/bus/pci/devices/*/numa_node."""


class ContainerDevices(NamedTuple):
    """Devices of one resource with the same set of zones.

    The kubelet sends one entry for each device and zone. Entries of one device are joined here.
    """

    resource: str
    ids: tuple[str, ...]
    """Sorted."""
    zones: tuple[int, ...] = ()
    """Ascending; several where a device is close to several. Empty: the plugin names none. (NO_ZONE,): it names only
    NUMA nodes that no machine has, such as -1."""


class MemoryBlock(NamedTuple):
    """Memory of one type held by one container, or allocatable in one zone."""

    type: str
    """"memory", or "hugepages-2Mi" and so on."""
    size: int
    """Bytes, of all its zones together: the API does not say how they are split."""
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
    """One named "" has the resources of the pod beyond its containers: its own pool, under pod-level resources (1.37).
    """


class Allocatable(NamedTuple):
    """Resources that the kubelet can allocate to pods exclusively, whether allocated now or not.

    Empty for a while after the kubelet's start: it serves the socket before its managers run. So "no CPUs" under the
    static policy means "not ready", never "none".
    """

    cpus: CpuSet = EMPTY
    devices: tuple[ContainerDevices, ...] = ()
    """The healthy ones only."""
    memory: tuple[MemoryBlock, ...] = ()


# --- checkpoint files under the kubelet's root directory


class CpuManagerState(NamedTuple):
    """cpu_manager_state (pkg/kubelet/cm/cpumanager/state/checkpoint.go)."""

    policy_name: str
    default_cpu_set: CpuSet
    """CPUs of the shared pool, reserved CPUs included."""
    entries: dict[str, dict[str, CpuSet]]
    """Exclusive CPUs by pod UID and container, including ended init containers and rejected pods."""


class MemoryTable(NamedTuple):
    """The bytes of one type of memory in one zone, by use."""

    total: int
    system_reserved: int
    allocatable: int
    reserved: int
    """Assigned to containers."""
    free: int


class NumaNodeState(NamedTuple):
    """The Memory Manager's state of one zone."""

    number_of_assignments: int
    """Count of blocks assigned in it."""
    cells: tuple[int, ...]
    """The group of zones from which memory is allocated as one while anything is assigned; otherwise the zone alone."""
    memory_map: dict[str, MemoryTable]
    """By type of memory."""


class MemoryManagerState(NamedTuple):
    """memory_manager_state (pkg/kubelet/cm/memorymanager/state/checkpoint.go)."""

    policy_name: str
    machine_state: dict[int, NumaNodeState]
    """By zone."""
    entries: dict[str, dict[str, tuple[MemoryBlock, ...]]]
    """Blocks by pod UID and container; entries of deleted pods stay until the next admission."""


class PodDevicesEntry(NamedTuple):
    """Devices of one resource allocated to one container."""

    uid: str
    """Of the pod."""
    container: str
    resource: str
    ids_by_zone: dict[int, tuple[str, ...]]
    """A device close to several zones is under each of them; -1: no topology."""


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
    """Content of the checkpoint files. None: the file is absent or unreadable."""

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
    """The fields of a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) that decide about zones, defaults filled in.

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
    """reservedSystemCPUs; None where the kubelet chooses as many as kubeReserved and systemReserved ask for."""
    reserved_milli_cpus: int = 0
    """systemReserved + kubeReserved cpu, milli-CPU."""
    reserved_memory: tuple[tuple[int, str, int], ...] = ()
    """reservedMemory as (zone, type, bytes), sorted."""
    feature_gates: tuple[tuple[str, bool], ...] = ()
    """Sorted by name."""

    def max_allowable_numa_nodes(self) -> int:
        """Return up to how many NUMA nodes a Topology Manager policy works with: max-allowable-numa-nodes, or 8."""
        return int(dict(self.topology_manager_options).get("max-allowable-numa-nodes", "8"))


class KubeletReport(NamedTuple):
    """The state of one kubelet at one moment."""

    pods: tuple[PodResources, ...]
    allocatable: Allocatable
    config: KubeletConfig | None = None
    """None: it could not be read."""
    state: StateFiles = StateFiles()
    active: frozenset[str] | None = None
    """UIDs of the pods that have a cgroup, or may not have one yet; None: not known."""
    ended: frozenset[str] = frozenset()
    """UIDs of pods that were listed or had a cgroup before, and have ended; a part of those in the checkpoints."""
    sources_ready: bool = True
    """False: the kubelet has restarted and does not know all of its pods yet (config.SourcesReady). It then releases
    no entry of its checkpoints."""
