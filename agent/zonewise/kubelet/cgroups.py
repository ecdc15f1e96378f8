"""Which pods have a cgroup: the UIDs of those that are alive, which List does not tell.

The kubelet makes a pod's cgroup before its first container and removes it after its last (kubelet.go SyncPod,
SyncTerminatedPod); a pod that was refused never has one. Their names are those of pkg/kubelet/cm
pod_container_manager_linux.go and cgroup_manager_linux.go: kubepods/burstable/pod<UID> with the driver cgroupfs,
kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice with systemd, where "-" of the UID is "_".
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

MOUNT = "sys/fs/cgroup"
CONTROLLERS = ("cpu", "memory", "cpuset", "pids")
"""Hierarchies of cgroup v1; every pod is in each that there is."""

_SLICE = ".slice"
_ROOT = "kubepods"
_CLASSES = ("burstable", "besteffort")
"""Guaranteed pods are beside these (qos_container_manager_linux.go Start)."""


class PodCgroups:
    """The cgroups of the pods of one machine. Not thread-safe."""

    def __init__(self, root: str = "/") -> None:
        """Look below the root of a host's files."""
        self._mount = os.path.join(root, MOUNT)
        self._found: tuple[str, ...] = ()

    def uids(self) -> frozenset[str] | None:
        """Return the UIDs of all pods that have a cgroup.

        None where the kubelet keeps none (cgroupsPerQOS: false), or they are out of sight: then nothing is known.
        """
        if not self._found:
            self._found = tuple(_find(self._mount))
        try:
            names = [name for place in self._found for name in _names(place)]
        except OSError:
            self.forget()
            return None
        return pod_uids(names) if self._found else None

    def directories(self) -> tuple[str, ...]:
        """Return the directories in which the cgroups of pods come and go; none where the kubelet keeps none."""
        roots = self._found or tuple(_find(self._mount))
        return tuple(place for root in roots for place in (root, *_classes(root)))

    def forget(self) -> None:
        """Look anew where they are: another kubelet may have another driver, and the old one's places stay, empty."""
        self._found = ()


# --- names


def pod_uids(names: Iterable[str]) -> frozenset[str]:
    """Return the UIDs of the pods among cgroups with these names."""
    return frozenset(filter(None, map(_uid, names)))


def _uid(name: str) -> str:
    """Return the UID in the name of a pod's cgroup, empty for others."""
    last = _last(name)
    return last.removeprefix("pod") if last.startswith("pod") else ""


def _last(name: str) -> str:
    """Return the last part of the kubelet's own name of a cgroup.

    The driver systemd joins all parts by dashes, and writes "_" for a dash of the kubelet's (ToSystemd).
    """
    return name.removesuffix(_SLICE).rpartition("-")[2].replace("_", "-") if name.endswith(_SLICE) else name


# --- places


def _find(mount: str) -> Iterator[str]:
    """Yield where pods are: at the top or one below, as under the cgroupRoot of kind and others (/kubelet/kubepods).

    Not deeper, where there may be other kubelets, each in a container.
    """
    unified = os.path.exists(os.path.join(mount, "cgroup.controllers"))
    for top in (mount,) if unified else (os.path.join(mount, controller) for controller in CONTROLLERS):
        found = [place for above in (top, *_below(top)) for place in _below(above) if _is_root(place)]
        if found:
            yield from found
            return


def _is_root(place: str) -> bool:
    return _last(os.path.basename(place)) == _ROOT


def _names(place: str) -> Iterator[str]:
    """Yield the names of the pods' cgroups, and of some others, below a place where pods are. Raises OSError."""
    for directory in (place, *_classes(place)):
        with os.scandir(directory) as entries:
            yield from (entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _classes(place: str) -> list[str]:
    """Return the directories of the classes of service below a place where pods are."""
    return [path for path in _below(place) if _last(os.path.basename(path)) in _CLASSES]


def _below(place: str) -> list[str]:
    """Return the directories in one; none where it is out of reach."""
    try:
        with os.scandir(place) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
