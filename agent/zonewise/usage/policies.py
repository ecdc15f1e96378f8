"""Which of the kubelet's managers allocate exclusively, and whether they are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.kubelet.types import KubeletReport


def is_cpu_manager_static(report: KubeletReport) -> bool:
    """Return whether the CPU Manager's policy is static.

    Allocatable CPUs prove it. Otherwise the checkpoint is preferred to the configuration. The running kubelet wrote the
    checkpoint, and does not start with a checkpoint of another policy. A configuration file may be the one for its next
    start.
    """
    if report.allocatable.cpus:
        return True
    if report.state.cpu is not None:
        return report.state.cpu.policy_name == "static"
    return report.config is not None and report.config.cpu_manager_policy == "static"


def is_memory_manager_static(report: KubeletReport) -> bool:
    """Return whether the Memory Manager's policy is Static, by the same rule."""
    if report.allocatable.memory:
        return True
    if report.state.memory is not None:
        return report.state.memory.policy_name == "Static"
    return report.config is not None and report.config.memory_manager_policy == "Static"


def not_ready_reason(report: KubeletReport) -> str | None:
    """Return why the kubelet's responses are not valid yet, as a sentence; None if they are valid.

    The kubelet serves the PodResources socket before its managers run; until then nothing is allocatable
    (cmd/kubelet/app/server.go startKubelet, pkg/kubelet/kubelet.go initializeRuntimeDependentModules).
    """
    if is_cpu_manager_static(report) and not report.allocatable.cpus:
        return "the kubelet is not ready: its CPU Manager is static and has no allocatable CPUs yet"
    if is_memory_manager_static(report) and not report.allocatable.memory:
        return "the kubelet is not ready: its Memory Manager is Static and has no allocatable memory yet"
    return None
