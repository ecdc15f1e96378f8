"""Why the agent scans again."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Each is also a value of the metric label `reason`."""

    START = "start"
    TIMER = "timer"
    """The periodic scan, for changes without an event."""
    RETRY = "retry"
    """A failed operation is tried again."""
    STATE = "state"
    """A state file of the kubelet: CPUs, memory or claims were allocated or released."""
    DEVICES = "devices"
    """The kubelet's checkpoint of devices, or a plugin's new socket."""
    SOCKET = "socket"
    """A socket of the kubelet was created anew: the kubelet restarted."""
    PODS = "pods"
    """The kubelet reported a change of a pod, or made or removed a pod's cgroup."""
    POLL = "poll"
    """No event tells the end of a pod on this node, so List is read again."""
    CONFIG = "config"
    """The kubelet's configuration files."""
    HARDWARE = "hardware"
    """The kernel reported a change of a device, a CPU or memory."""
    NOTIFY = "notify"
    """The notification file was touched."""
    FEATURES = "features"
    """A feature file of Node Feature Discovery's local source."""
    HEALTH = "health"
    """A record of the kernel log about a device, or NVML."""
    RULES = "rules"
    """A NodeFeatureRule."""
    RELOAD = "reload"
    """The agent's own settings, or SIGHUP."""
    STOP = "stop"
    """SIGTERM or SIGINT."""


MACHINE_UNCHANGED = frozenset(
    {Reason.STATE, Reason.PODS, Reason.POLL, Reason.DEVICES, Reason.SOCKET, Reason.RETRY, Reason.RULES}
)
"""Reasons that say nothing about the machine, so that neither it nor its health is read again."""
