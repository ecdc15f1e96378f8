"""Which of the kubelet's managers give things exclusively, and whether they have begun to."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.kubelet.types import KubeletReport


def is_cpu_manager_static(report: KubeletReport) -> bool:
    """Tell whether the CPU Manager is static.

    It is where it has CPUs to give; else the checkpoint is believed before the configuration, since the running kubelet
    wrote it, and refuses to start upon that of another policy, while a file of configuration may be of the next start.
    """
    if report.allocatable.cpus:
        return True
    if report.state.cpu is not None:
        return report.state.cpu.policy_name == "static"
    return report.config is not None and report.config.cpu_manager_policy == "static"


def is_memory_manager_static(report: KubeletReport) -> bool:
    """Tell whether the Memory Manager is Static, by the same rule."""
    if report.allocatable.memory:
        return True
    if report.state.memory is not None:
        return report.state.memory.policy_name == "Static"
    return report.config is not None and report.config.memory_manager_policy == "Static"


def not_ready_reason(report: KubeletReport) -> str | None:
    """Return why the answers of the kubelet are not yet to be believed, a sentence; None where they are.

    Its socket is served before its managers run, and then they have nothing to give (section 4.3 of the study).
    """
    if is_cpu_manager_static(report) and not report.allocatable.cpus:
        return "the kubelet is not ready: its CPU Manager is static and has no CPUs to give yet"
    if is_memory_manager_static(report) and not report.allocatable.memory:
        return "the kubelet is not ready: its Memory Manager is Static and has no memory to give yet"
    return None
