"""A kubelet's configuration for tests: settings about zones vary, and settings that a sandbox needs are fixed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from support.e2e.hardware import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping

EVICTION = 100 * MIB
"""The kubelet's eviction threshold in bytes, its own default (pkg/kubelet/eviction/defaults_linux.go)."""


class Settings(NamedTuple):
    """The settings that determine allocations of zones."""

    topology: str = "none"
    scope: str = "container"
    topology_options: Mapping[str, str] = {}
    cpu: str = "static"
    cpu_options: Mapping[str, str] = {}
    memory: str = "Static"
    reserved_cpus: str = "0,16"
    reserved_memory: tuple[tuple[int, str, int], ...] = ((0, "memory", 512 * MIB),)
    """Zone, type and bytes; used only if the Memory Manager is Static."""
    gates: Mapping[str, bool] = {}
    reconcile: str = "10s"
    """How often the CPU Manager looks for containers that no longer exist; 10 s is the kubelet's default."""


def configuration(settings: Settings, *, runtime: str, manifests: str, port: int) -> dict[str, Any]:
    """Return a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) for a container runtime, a directory and a port."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": runtime,
        "staticPodPath": manifests,
        "featureGates": dict(settings.gates),
        **_SANDBOX,
        "port": port,
        **_managers(settings),
    }


def _managers(settings: Settings) -> dict[str, Any]:
    made: dict[str, Any] = {
        "cpuManagerPolicy": settings.cpu,
        "cpuManagerPolicyOptions": dict(settings.cpu_options),
        "cpuManagerReconcilePeriod": settings.reconcile,
        "memoryManagerPolicy": settings.memory,
        "topologyManagerPolicy": settings.topology,
        "topologyManagerScope": settings.scope,
        "topologyManagerPolicyOptions": dict(settings.topology_options),
        "reservedSystemCPUs": settings.reserved_cpus,
        "evictionHard": {"memory.available": str(EVICTION)},
    }
    if settings.memory == "Static":
        memory = sum(size for _, kind, size in settings.reserved_memory if kind == "memory")
        # memory reserved in zones must equal the memory reserved in total (memory_manager.go validateReservedMemory)
        made["systemReserved"] = {"memory": str(memory - EVICTION)}
        made["reservedMemory"] = [
            {"numaNode": zone, "limits": {kind: str(size)}} for zone, kind, size in settings.reserved_memory
        ]
    return made


_SANDBOX: dict[str, Any] = {
    "address": "127.0.0.1",
    "readOnlyPort": 0,
    "healthzPort": 0,
    "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
    "authorization": {"mode": "AlwaysAllow"},
    # it has no cgroups of its own, on either version of cgroups
    "failCgroupV1": False,
    "cgroupDriver": "cgroupfs",
    "cgroupsPerQOS": False,
    "enforceNodeAllocatable": [],
    # change nothing outside its directory
    "makeIPTablesUtilChains": False,
    "oomScoreAdj": 0,
    "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    "localStorageCapacityIsolation": False,
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
    "registerNode": False,
}
