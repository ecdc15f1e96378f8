"""The CPUs that the cgroup of the reading process permits; supports cgroup v1 and v2 at any mount point.

Sources: man 7 cgroups, man 7 cpuset, man 5 proc (mountinfo); Documentation/admin-guide/cgroup-v2.rst of the kernel.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.cpu.sharing import shown
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.reader import Reader

STATUS = "proc/self/status"
FACT = "cpus.allowed"

_V1_FILES = ("cpuset.cpus", "cpus")  # the latter if mounted with the option noprefix
_V2_FILES = ("cpuset.cpus.effective",)
_ESCAPE = re.compile(r"\\([0-7]{3})")  # how the kernel escapes blanks in the paths of its mount tables
_MAX_DEPTH = 64  # maximum depth of the search for a cgroup; systemd and Kubernetes nest cgroups eight deep


class Mount(NamedTuple):
    """The mount of a cgroup hierarchy with cpusets."""

    point: str
    root: str
    """The cgroup at the mount's root, as /proc shows it: not "/" inside a container."""
    v2: bool


def allowed_cpus(read: Reader, online: CpuSet) -> CpuSet | None:
    """Return the online CPUs that the reading process may use; None if no file lists them."""
    before = len(read.problems)
    allowed = _cgroup_cpus(read) or _status_cpus(read)
    if allowed is not None:
        read.note_used(before, f"CPUs {shown(allowed)}, from another file")
        return allowed & online
    if len(read.problems) > before:
        return None
    read.source(FACT, "proc/self/cgroup", None, "no cpuset restricts the reading process, so all online CPUs")
    return online


def cpus_allowed_line(status: str) -> str | None:
    """Return the list of CPUs in the text of /proc/<pid>/status."""
    match = re.search(r"^Cpus_allowed_list:[ \t]*(\S+)$", status, re.MULTILINE)
    return match[1] if match else None


def _status_cpus(read: Reader) -> CpuSet | None:
    text = cpus_allowed_line(read.text(STATUS) or "")
    if text is None:
        return None
    try:
        cpus = CpuSet.parse_list(text)
    except ValueError:
        read.problem(STATUS, f"Cpus_allowed_list is not a CPU list: {text[:60]!r}")
        return None
    read.source(FACT, STATUS, text, "Cpus_allowed_list of the reading process")
    return cpus or None


def _cgroup_cpus(read: Reader) -> CpuSet | None:
    groups = _groups(read)
    mounts = _mounts(read)
    # a controller is bound to one hierarchy: if a v1 hierarchy with cpusets is mounted, v2 has no cpusets
    for mount in sorted(mounts, key=lambda mount: mount.v2):
        group = groups.get("v2" if mount.v2 else "v1") or groups.get("cpuset")
        for directory in _directories(mount, group) if group else ():
            for name in _V2_FILES if mount.v2 else _V1_FILES:
                rule = f"the cpuset of the cgroup {group}"
                if cpus := read.cpus(posixpath.join(directory, name), fact=FACT, rule=rule):
                    return cpus
    return None


def _groups(read: Reader) -> dict[str, str]:
    """Return the cgroups of the process in cgroup v2, in the v1 hierarchy with cpusets, and in /proc's cpuset file."""
    groups: dict[str, str] = {}
    for line in (read.text("proc/self/cgroup") or "").split("\n"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers and path:
            groups["v2"] = path
        elif "cpuset" in controllers.split(","):
            groups["v1"] = path
    if not groups and (path := read.text("proc/self/cpuset")):
        groups["cpuset"] = path
    return groups


def _mounts(read: Reader) -> list[Mount]:
    text = read.text("proc/self/mountinfo")
    if text is not None:
        return [mount for line in text.split("\n") if (mount := _mountinfo(line))]
    text = read.text("proc/mounts") or ""
    return [mount for line in text.split("\n") if (mount := _mount_line(line))]


def _mountinfo(line: str) -> Mount | None:
    """Parse a line such as "36 35 0:29 /docker/c1 /sys/fs/cgroup/cpuset ro,relatime - cgroup cgroup rw,cpuset"."""
    front, _, back = line.partition(" - ")
    fields, kind = front.split(" "), back.split(" ")
    return _mount(fields[4], fields[3], kind[0], kind[2]) if len(fields) >= 6 and len(kind) == 3 else None


def _mount_line(line: str) -> Mount | None:
    """Parse a line such as "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0"."""
    fields = line.split(" ")
    return _mount(fields[1], "/", fields[2], fields[3]) if len(fields) >= 4 else None


def _mount(point: str, root: str, kind: str, options: str) -> Mount | None:
    v2 = kind == "cgroup2"
    v1 = kind == "cpuset" or (kind == "cgroup" and "cpuset" in options.split(","))
    return Mount(_unescaped(point), _unescaped(root), v2) if v1 or v2 else None


def _directories(mount: Mount, group: str) -> Iterator[str]:
    """Yield the directories with a cgroup's files, relative to the root of the machine.

    In cgroup v2 the nearest ancestor counts if the controller is not enabled for the cgroup itself.
    """
    root = mount.root.rstrip("/")
    below = group.removeprefix(root) if f"{group}/".startswith(f"{root}/") else group
    # normalized as absolute paths, so that no number of ".." leaves the root
    top = posixpath.normpath("/" + mount.point.lstrip("/"))
    directory = posixpath.normpath(posixpath.join(top, below.lstrip("/")))
    for _ in range(_MAX_DEPTH if directory.isprintable() else 0):
        yield directory.lstrip("/")
        if not mount.v2 or directory == top or not directory.startswith(top):
            return
        directory = posixpath.dirname(directory)


def _unescaped(path: str) -> str:
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), path)
