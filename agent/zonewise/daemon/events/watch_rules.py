"""Which files wake the agent, and for what reason."""

from __future__ import annotations

import errno
import glob
import os
from typing import TYPE_CHECKING

from zonewise.daemon.events.file_watches import WatchRule
from zonewise.daemon.events.reasons import Reason
from zonewise.kubelet import state
from zonewise.kubelet.cgroups import PodCgroups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.daemon.settings import Settings

_REPLACED = "..data"
"""The link in a mounted ConfigMap or Secret that is replaced when its content changes: the files beside it are links
through it, and stay as they are (pkg/volume/util/atomic_writer.go)."""


def watch_rules(settings: Settings, settings_file: str = "") -> Iterator[WatchRule]:
    """Yield the rules for an agent with these settings."""
    kubelet = settings.kubelet_dir
    plugins = os.path.join(kubelet, state.DEVICE_PLUGINS)
    yield WatchRule(kubelet, (state.CPU_STATE, state.MEMORY_STATE, state.DRA_STATE), Reason.STATE)
    # a plugin's socket, and the kubelet's own for them, come before what they serve is in the checkpoint
    yield WatchRule(plugins, (state.DEVICE_CHECKPOINT, "*.sock"), Reason.DEVICES)
    # a pod that holds nothing exclusively leaves no other trace, nor does one whose end has not reached the files yet
    for place in PodCgroups(settings.root).directories():
        yield WatchRule(place, ("*pod*",), Reason.PODS)
    yield _file(settings.podresources_socket, Reason.SOCKET)
    yield _file(settings.pods_api_socket, Reason.SOCKET)
    if "://" not in settings.kubelet_config:
        yield _file(settings.kubelet_config, Reason.CONFIG)
    if settings.kubelet_config_drop_ins:
        yield WatchRule(settings.kubelet_config_drop_ins, ("*.conf", _REPLACED), Reason.CONFIG)
    if settings.notify_file:
        yield _file(settings.notify_file, Reason.NOTIFY)._replace(touched=True)
    if settings_file:
        yield _file(settings_file, Reason.RELOAD)


def ensure_notify_file(path: str) -> None:
    """Make the notification file, and the directories above it, where they are absent.

    Raises OSError where that is not possible, or something else than a file is in its place.
    """
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o750, exist_ok=True)
    # O_NONBLOCK: a FIFO in its place would let us wait for ever
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK, 0o640))
    if not os.path.isfile(path):
        raise OSError(errno.EINVAL, "is no regular file", path)


def _file(path: str, reason: Reason) -> WatchRule:
    directory, name = os.path.split(os.path.abspath(path))
    return WatchRule(directory, (glob.escape(name), _REPLACED), reason)
