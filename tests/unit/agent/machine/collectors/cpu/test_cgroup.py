"""Which CPUs the reading process may use, by cgroup v1, cgroup v2 and /proc/self/status."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cpu_trees import cpuset, line, reader
from zonewise.machine.collectors.cpu.cgroup import FACT, allowed_cpus, cpus_allowed_line
from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from support.trees import Contents

ONLINE = cpuset("0-15")
V2_MOUNT = b"sysfs /sys sysfs rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n"
STATUS = b"Name:\tzonewise\nCpus_allowed:\t00f0\nCpus_allowed_list:\t4-7\nMems_allowed_list:\t0\n"


def allowed(tree: Contents) -> str | None:
    """Return the CPUs that the files of a tree allow."""
    permitted = allowed_cpus(reader(tree), ONLINE)
    return None if permitted is None else str(permitted)


def v2_tree(group: str, files: dict[str, str]) -> Contents:
    """Return the tree of a process in a cgroup of v2."""
    tree: Contents = {"proc/mounts": V2_MOUNT, "proc/self/cgroup": line(f"0::{group}")}
    return tree | {f"sys/fs/cgroup{path}": line(text) for path, text in files.items()}


def test_v2() -> None:
    """The effective CPUs of the process's own cgroup apply."""
    files = {"/cpuset.cpus.effective": "0-15", "/kubepods/pod1/cpuset.cpus.effective": "2-5"}
    assert allowed(v2_tree("/kubepods/pod1", files)) == "2-5"


def test_v2_without_the_controller() -> None:
    """If the controller is not enabled for the cgroup, its nearest ancestor with the controller applies."""
    files = {"/cpuset.cpus.effective": "0-15", "/a/cpuset.cpus.effective": "0-7", "/a/b/c/cgroup.procs": "1"}
    assert allowed(v2_tree("/a/b/c", files)) == "0-7"


def test_v2_in_a_cgroup_namespace() -> None:
    """A container with a cgroup namespace sees its own cgroup as the root."""
    assert allowed(v2_tree("/", {"/cpuset.cpus.effective": "8-9"})) == "8-9"


def test_v2_at_an_odd_mount() -> None:
    """The mount table names the path of the hierarchy; a blank in a path is an octal escape."""
    tree: Contents = {
        "proc/mounts": b"none /c\\040groups/unified cgroup2 rw 0 0\n",
        "proc/self/cpuset": b"/job_7/step_0\n",
        "c groups/unified/job_7/step_0/cpuset.cpus.effective": b"0-5\n",
    }
    assert allowed(tree) == "0-5"


@pytest.mark.parametrize(
    ("mount", "name"),
    [
        ("cgroup /sys/fs/cgroup/cpuset cgroup rw,relatime,cpuset 0 0", "sys/fs/cgroup/cpuset/pod/cpuset.cpus"),
        ("none /dev/cpuset cgroup rw,cpuset,noprefix 0 0", "dev/cpuset/pod/cpus"),
        ("cpuset /dev/cpuset cpuset rw 0 0", "dev/cpuset/pod/cpus"),
    ],
)
def test_v1(mount: str, name: str) -> None:
    """The hierarchy with cpusets applies, among others and beside an empty v2, with and without prefixes."""
    tree: Contents = {
        "proc/mounts": f"cgroup2 /unified cgroup2 rw 0 0\ncgroup /m cgroup rw,memory 0 0\n{mount}\n".encode(),
        "proc/self/cgroup": b"9:memory:/elsewhere\n4:cpuset:/pod\n1:name=systemd:/x\n0::/x\n",
        "unified/cgroup.controllers": b"\n",
        name: b"1,3\n",
    }
    assert allowed(tree) == "1,3"


def test_v1_in_a_container_without_namespace() -> None:
    """The mount shows only a part of the hierarchy. Its name is in mountinfo, and the cgroup's path starts above it."""
    tree: Contents = {
        "proc/self/mountinfo": b"36 35 0:29 /docker/c1 /sys/fs/cgroup/cpuset ro shared:8 - cgroup cgroup rw,cpuset\n",
        "proc/mounts": b"none /wrong cgroup rw,cpuset 0 0\n",
        "proc/self/cgroup": b"4:cpuset:/docker/c1/inner\n",
        "sys/fs/cgroup/cpuset/inner/cpuset.cpus": b"6\n",
    }
    assert allowed(tree) == "6"


def test_the_name_of_a_mounted_cgroup_may_be_a_prefix_of_another() -> None:
    """The process is in /docker/c10, which is not below the mounted /docker/c1."""
    tree: Contents = {
        "proc/self/mountinfo": b"36 35 0:29 /docker/c1 /sys/fs/cgroup/cpuset ro shared:8 - cgroup cgroup rw,cpuset\n",
        "proc/self/cgroup": b"4:cpuset:/docker/c10\n",
        "proc/self/status": STATUS,
        "sys/fs/cgroup/cpuset/0/cpuset.cpus": b"6\n",
    }
    assert allowed(tree) == "4-7"


def test_an_unset_v1_cpuset() -> None:
    """An empty cpuset.cpus is unset. It permits no process, so it does not apply."""
    tree: Contents = {
        "proc/mounts": b"cgroup /c cgroup rw,cpuset 0 0\n",
        "proc/self/cgroup": b"4:cpuset:/\n",
        "c/cpuset.cpus": b"\n",
        "proc/self/status": STATUS,
    }
    assert allowed(tree) == "4-7"


def test_status() -> None:
    """If no cgroup can be read, the process's own affinity applies."""
    assert allowed({"proc/self/status": STATUS}) == "4-7"
    assert allowed(v2_tree("/a", {}) | {"proc/self/status": STATUS}) == "4-7"


def test_no_restriction() -> None:
    """A process without restrictions may use every online CPU."""
    assert allowed({"proc/uptime": b"1\n"}) == "0-15"
    assert allowed(v2_tree("/user.slice", {})) == "0-15"


def test_offline_cpus_are_not_usable() -> None:
    """A cpuset may name CPUs that are not online."""
    assert allowed(v2_tree("/", {"/cpuset.cpus.effective": "12-90"})) == "12-15"


def test_damage_is_reported_and_replaced() -> None:
    """The affinity replaces a cpuset that cannot be parsed, and the problem names the cpuset."""
    read = reader(v2_tree("/", {"/cpuset.cpus.effective": "0-x"}) | {"proc/self/status": STATUS})
    assert allowed_cpus(read, ONLINE) == cpuset("4-7")
    assert [(problem.path, problem.used) for problem in read.problems] == [
        ("/sys/fs/cgroup/cpuset.cpus.effective", "CPUs 4-7, from another file")
    ]


def test_damage_without_a_replacement() -> None:
    """A cpuset that cannot be parsed is unknown; it does not mean all CPUs."""
    assert allowed(v2_tree("/", {"/cpuset.cpus.effective": "0-x"})) is None
    assert allowed({"proc/self/status": STATUS.replace(b"4-7", b"7-4")}) is None


def test_the_source() -> None:
    """The source of the fact names the file, its text and the cgroup."""
    read = reader(v2_tree("/pod", {"/pod/cpuset.cpus.effective": "2"}))
    allowed_cpus(read, ONLINE)
    assert read.sources is not None
    assert read.sources[FACT].file == "/sys/fs/cgroup/pod/cpuset.cpus.effective"
    assert read.sources[FACT].value == "2"


class Spy:
    """Files of the process that record each path that is read."""

    live = False

    def __init__(self, tree: Contents) -> None:
        self.files = MemoryFiles(tree.items())
        self.paths: list[str] = []

    def read(self, path: str) -> bytes:
        self.paths.append(path)
        return self.files.read(path)

    def names(self, path: str) -> list[str]:
        return self.files.names(path)

    def link(self, path: str) -> str:
        return self.files.link(path)


@given(st.text("/.ab\0", max_size=20), st.text("/.ab", max_size=20), st.text("/.ab", max_size=10))
def test_no_path_leaves_the_root(group: str, point: str, root: str) -> None:
    """Whatever the names of cgroup and mount, nothing outside the machine's root is read."""
    mount = f"36 35 0:29 {root or '/'} {point or '/'} rw - cgroup2 cgroup2 rw\n"
    spy = Spy({"proc/self/mountinfo": mount.encode(), "proc/self/cgroup": f"0::{group}\n".encode()})
    allowed_cpus(Reader(spy), ONLINE)
    assert [path for path in spy.paths if path.startswith("/") or ".." in path.split("/") or "\0" in path] == []


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_noise(mounts: bytes, groups: bytes, status: bytes) -> None:
    """Noise in any of the files gives a set of online CPUs or none."""
    tree: Contents = {"proc/mounts": mounts, "proc/self/cgroup": groups, "proc/self/status": status}
    permitted = allowed_cpus(reader(tree), ONLINE)
    assert permitted is None or permitted <= ONLINE


def test_the_line_of_status() -> None:
    """The list counts, not the mask, and only if its line is complete."""
    assert cpus_allowed_line(STATUS.decode()) == "4-7"
    assert cpus_allowed_line("xCpus_allowed_list:\t1\n") is None
    assert cpus_allowed_line("Cpus_allowed_list:\t\n") is None
