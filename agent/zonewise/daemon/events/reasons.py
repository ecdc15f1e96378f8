"""Why the agent scans again."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason to scan again. Each is also a value of the metric label `reason`."""

    START = "start"
    TIMER = "timer"
    """The periodic scan, for changes without an event."""
    RETRY = "retry"
    """A failed operation is retried."""
    STATE = "state"
    """A state file of the kubelet changed: CPUs, memory or claims were allocated or released."""
    DEVICES = "devices"
    """The kubelet's device checkpoint changed, or a plugin created a socket."""
    SOCKET = "socket"
    """A socket of the kubelet was created again: the kubelet restarted."""
    PODS = "pods"
    """The kubelet reported a change of a pod, or created or removed a pod's cgroup."""
    POLL = "poll"
    """No event shows the end of a pod on this node, so List is read again."""
    CONFIG = "config"
    """The kubelet's configuration files changed."""
    HARDWARE = "hardware"
    """The kernel reported a change of a device, a CPU or memory."""
    NOTIFY = "notify"
    """The notification file was touched."""
    FEATURES = "features"
    """A feature file of Node Feature Discovery's local source changed."""
    HEALTH = "health"
    """The kernel log has a new record about a device, or NVML has new data."""
    RULES = "rules"
    """A NodeFeatureRule changed."""
    RELOAD = "reload"
    """The agent's own settings changed, or SIGHUP arrived."""
    STOP = "stop"
    """SIGTERM or SIGINT arrived."""


MACHINE_UNCHANGED = frozenset(
    {Reason.STATE, Reason.PODS, Reason.POLL, Reason.DEVICES, Reason.SOCKET, Reason.RETRY, Reason.RULES}
)
"""Reasons that do not concern the machine, so that neither it nor its health is read again."""
