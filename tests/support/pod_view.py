"""The view of a DaemonSet pod: its mounts as in the manifest, in a mount namespace of its own.

This module replaces the container runtime. It creates new mount, network and process namespaces, and a process that is
root without any capability. It binds the volumes one by one, read-only, below a directory that is the container's root.
As in the image, host/proc is a link to the container's own /proc. Mounts below a mount do not become read-only here. A
runtime makes them read-only only on some nodes (recursiveReadOnly: IfPossible).
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.manifests import Object

_NAMESPACES = ("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc")
_ROOT_WITHOUT_RIGHTS = ("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")


@functools.cache
def why_not() -> str | None:
    """Return why such a pod cannot run here; None if it can."""
    if os.geteuid() != 0:
        return "mount namespaces are root's"
    if shutil.which("setpriv") is None or shutil.which("unshare") is None:
        return "util-linux is not installed"
    answer = subprocess.run([*_NAMESPACES, "mount", "--make-rprivate", "/"], check=False, capture_output=True)
    return None if answer.returncode == 0 else "this machine forbids new namespaces"


class PodView:
    """A container's root below a directory, with substitutes for some host paths."""

    def __init__(self, directory: Path, pod: Object, instead: dict[str, Path]) -> None:
        """Set a scratch directory, the pod of a DaemonSet, and substitutes for host paths."""
        self.root = directory / "image"
        (self.root / "host").mkdir(parents=True)
        (self.root / "host" / "proc").symlink_to("/proc")
        self._empty = directory / "empty"
        self._empty.mkdir()
        self._pod = pod
        self._instead = instead

    def start(self, code: str) -> subprocess.Popen[str]:
        """Run Python code in the pod; its variable `root` is the container's root. Its stdin and stdout are pipes."""
        within = shlex.join([*_ROOT_WITHOUT_RIGHTS, sys.executable, "-c", f"root = {str(self.root)!r}\n{code}"])
        script = "\n".join(["set -e", "mount --make-rprivate /", *self._mounts(), f"exec {within}"])
        return subprocess.Popen(
            [*_NAMESPACES, "bash", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _mounts(self) -> list[str]:
        """Return the commands that mount host paths and empty directories, in the order of the manifest."""
        commands: list[str] = []
        volumes = {volume["name"]: volume for volume in self._pod["volumes"]}
        for mount in self._pod["containers"][0]["volumeMounts"]:
            source = self._source(volumes[mount["name"]])
            if source is not None:
                place = self.root / mount["mountPath"].lstrip("/")
                make = f"mkdir -p {place}" if source.is_dir() else f"mkdir -p {place.parent} && touch {place}"
                # the mount point of a cover is on the host, below a read-only mount, so nothing can be created there
                commands += [f"test -e {place} || {{ {make}; }}", f"mount --rbind {source} {place}"]
                commands += [f"mount -o remount,bind,ro {place}"] if mount["readOnly"] else []
        return commands

    def _source(self, volume: Object) -> Path | None:
        if "emptyDir" in volume:
            return self._empty
        if "hostPath" not in volume:
            return None  # settings and token
        path: str = volume["hostPath"]["path"]
        found = self._elsewhere(Path(path)).resolve()
        may_lack = volume["hostPath"]["type"] == "DirectoryOrCreate"  # must not be created on this machine
        return self._empty if may_lack and not found.exists() else found

    def _elsewhere(self, path: Path) -> Path:
        for host_path, other in self._instead.items():
            if path.is_relative_to(host_path):
                return other / path.relative_to(host_path)
        return path
