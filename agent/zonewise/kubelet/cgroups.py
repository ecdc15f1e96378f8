"""Which pods have a cgroup: the UIDs of alive pods, which List does not provide.

The kubelet creates a pod's cgroup before its first container and removes it after its last (kubelet.go SyncPod,
SyncTerminatedPod). A rejected pod never has one. The names are those of pkg/kubelet/cm pod_container_manager_linux.go
and cgroup_manager_linux.go. The driver cgroupfs uses kubepods/burstable/pod<UID>. The driver systemd uses
kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice, with "_" for each "-" of the UID.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNT = "sys/fs/cgroup"
CONTROLLERS = ("cpu", "memory", "cpuset", "pids")
"""Hierarchies of cgroup v1; every pod is in each of them that exists."""

_SLICE = ".slice"
_ROOT = "kubepods"
_CLASSES = ("burstable", "besteffort")
"""Cgroups of the QoS classes; the cgroups of Guaranteed pods are beside these
(qos_container_manager_linux.go Start)."""


class PodCgroups:
    """The cgroups of the pods of one machine. Not thread-safe."""

    def __init__(self, root: str = "/") -> None:
        """Set the root of a host's files, below which to look."""
        self._mount = os.path.join(root, MOUNT)
        self._roots: tuple[str, ...] = ()

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods that have a cgroup.

        Returns None if the kubelet creates none (cgroupsPerQOS: false) or they are not visible: then nothing is known.
        """
        if not self._roots:
            self._roots = tuple(_find_roots(self._mount))
        try:
            names = [name for root in self._roots for name in _cgroup_names(root)]
        except OSError:
            self.forget()
            return None
        return pod_uids(names) if self._roots else None

    def directories(self) -> tuple[str, ...]:
        """Return the directories in which cgroups of pods appear; none if the kubelet creates none."""
        roots = self._roots or tuple(_find_roots(self._mount))
        return tuple(directory for root in roots for directory in (root, *_class_directories(root)))

    def forget(self) -> None:
        """Search for the roots again: another kubelet may have another driver, and the old directories
        remain, empty.
        """
        self._roots = ()


# --- names


def pod_uids(names: Iterable[str]) -> frozenset[str]:
    """Return the UIDs of the pods among cgroups with these names."""
    return frozenset(filter(None, map(_pod_uid, names)))


def _pod_uid(name: str) -> str:
    """Return the UID in the name of a pod's cgroup; empty for other names."""
    last = _last_component(name)
    return last.removeprefix("pod") if last.startswith("pod") else ""


def _last_component(cgroup: str) -> str:
    """Return the last component of the kubelet's own name for a cgroup.

    The systemd driver joins all components with dashes and writes "_" for a dash in the kubelet's name (ToSystemd).
    """
    return cgroup.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-") if cgroup.endswith(_SLICE) else cgroup


# --- directories


def _find_roots(mount: str) -> Iterator[str]:
    """Yield the cgroups "kubepods", at the top or one level below, as under the cgroupRoot of kind (/kubelet/kubepods).

    The search goes no deeper: other kubelets may run there, each in a container.
    """
    unified = os.path.exists(os.path.join(mount, "cgroup.controllers"))
    for top in (mount,) if unified else (os.path.join(mount, controller) for controller in CONTROLLERS):
        roots = [
            directory
            for parent in (top, *_subdirectories(top))
            for directory in _subdirectories(parent)
            if _is_root(directory)
        ]
        if roots:
            yield from roots
            return


def _is_root(path: str) -> bool:
    return _last_component(os.path.basename(path)) == _ROOT


def _cgroup_names(root: str) -> Iterator[str]:
    """Yield the names of the pods' cgroups, and of some other cgroups, below a root. Raises OSError."""
    for directory in (root, *_class_directories(root)):
        with os.scandir(directory) as entries:
            yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _class_directories(root: str) -> list[str]:
    """Return the directories of the QoS classes below a root."""
    return [path for path in _subdirectories(root) if _last_component(os.path.basename(path)) in _CLASSES]


def _subdirectories(directory: str) -> list[str]:
    """Return the subdirectories of a directory; none if it cannot be read."""
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
