"""Why the agent looks again."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """Each is also the value of a metric's label."""

    START = "start"
    TIMER = "timer"
    """The slow rescan, for what tells nobody that it changed."""
    RETRY = "retry"
    """What failed is tried again."""
    STATE = "state"
    """A state file of the kubelet: a pod got or gave back CPUs, memory or claims."""
    DEVICES = "devices"
    """The kubelet's checkpoint of devices, or a plugin's new socket."""
    SOCKET = "socket"
    """A socket that the kubelet serves was made anew: the kubelet restarted."""
    PODS = "pods"
    """The kubelet told of a pod."""
    CONFIG = "config"
    """The kubelet's configuration files."""
    HARDWARE = "hardware"
    """The kernel told of a device, a CPU or memory."""
    NOTIFY = "notify"
    """Somebody touched the notification file."""
    RELOAD = "reload"
    """The agent's own settings, or SIGHUP."""
    STOP = "stop"
    """SIGTERM or SIGINT."""
