"""The UIDs of pods, derived from the names of their cgroups."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.kubelet.cgroups import PodCgroups, pod_uids

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

CLASSES = ("", "burstable", "besteffort")
V1 = ("cpu", "memory")
STATIC = "0123456789abcdef0123456789abcdef"
"""The UID of a static pod is a hash."""
ONE, TWO, THREE = (str(UUID(int=number << 90 | number)) for number in (1, 2, 3))

UIDS = st.uuids().map(str) | st.uuids().map(lambda uid: uid.hex)


def cgroup(driver: str, *parts: str) -> str:
    """Return the path of one of the kubelet's cgroups, by the rules of ToCgroupfs and ToSystemd."""
    if driver == "cgroupfs":
        return "/".join(parts)
    escaped = [part.replace("-", "_") for part in parts]
    return "/".join("-".join(escaped[: count + 1]) + ".slice" for count in range(len(parts)))


def pod(driver: str, uid: str, quality: str = "", above: tuple[str, ...] = ()) -> str:
    return cgroup(driver, *above, "kubepods", *filter(None, [quality]), f"pod{uid}")


def make(root: Path, cgroups: Iterable[str], version: int) -> PodCgroups:
    """Create cgroups, with the files and sibling cgroups that every machine has."""
    mount = root / "sys" / "fs" / "cgroup"
    for top in (mount,) if version == 2 else tuple(mount / name for name in V1):
        for path in (*cgroups, "system.slice/cron.service", "user.slice", "init.scope"):
            (top / path).mkdir(parents=True, exist_ok=True)
        (top / "cgroup.procs").touch()
    if version == 2:
        (mount / "cgroup.controllers").touch()
    return PodCgroups(str(root))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
@pytest.mark.parametrize("above", [(), ("kubelet",), ("my-own",)])
def test_pods_of_every_class(tmp_path: Path, version: int, driver: str, above: tuple[str, ...]) -> None:
    """All pods are found wherever kubepods is, with either driver and either cgroup version."""
    uids = (ONE, TWO, STATIC)
    cgroups = [pod(driver, uid, quality, above) for uid, quality in zip(uids, CLASSES, strict=True)]
    inner = [f"{cgroups[0]}/cri-containerd-{'0' * 64}.scope", f"{cgroups[1]}/{'1' * 64}"]
    cgroups_reader = make(tmp_path, [*cgroups, *inner], version)
    assert cgroups_reader.uids() == set(uids)
    assert cgroups_reader.uids() == set(uids)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_directories(tmp_path: Path, version: int, driver: str) -> None:
    """Pods start and end in kubepods itself and in its two QoS classes, and nowhere else."""
    cgroups = [pod(driver, uid, quality) for uid, quality in zip((ONE, TWO, THREE), CLASSES, strict=True)]
    top = tmp_path / "sys" / "fs" / "cgroup" / ("cpu" if version == 1 else "")
    reader = make(tmp_path, cgroups, version)
    assert set(reader.directories()) == {str((top / path).parent) for path in cgroups}
    assert make(tmp_path / "none", (), version).directories() == ()


def test_pods_come_and_go(tmp_path: Path) -> None:
    reader = make(tmp_path, [pod("systemd", ONE)], 2)
    assert reader.uids() == {ONE}
    make(tmp_path, [pod("systemd", TWO, "burstable")], 2)
    assert reader.uids() == {ONE, TWO}
    (tmp_path / "sys/fs/cgroup" / pod("systemd", ONE)).rmdir()
    assert reader.uids() == {TWO}


@pytest.mark.parametrize("version", [1, 2])
def test_no_pods_is_not_unknown(tmp_path: Path, version: int) -> None:
    """If kubepods is empty, there are no pods; if it does not exist, the pods are unknown."""
    assert make(tmp_path / "with", ["kubepods.slice/kubepods-burstable.slice"], version).uids() == frozenset()
    assert make(tmp_path / "without", [], version).uids() is None
    assert PodCgroups(str(tmp_path / "nowhere")).uids() is None


def test_kubelets_in_containers_are_not_ours(tmp_path: Path) -> None:
    """Pods of a cluster that runs inside containers of this machine are not the machine's own."""
    theirs = (f"docker/{'0' * 64}/kubelet/{pod('cgroupfs', ONE)}", f"docker/{'1' * 64}/{pod('cgroupfs', TWO)}")
    assert make(tmp_path, theirs, 2).uids() is None


def test_another_driver(tmp_path: Path) -> None:
    """After forget(), leftovers of another driver do not hide the cgroups of the new one."""
    reader = make(tmp_path, [cgroup("cgroupfs", "kubepods", "burstable")], 2)
    assert reader.uids() == frozenset()
    make(tmp_path, [pod("systemd", ONE)], 2)
    reader.forget()
    assert reader.uids() == {ONE}


def test_kubepods_is_removed(tmp_path: Path) -> None:
    """While kubepods is absent, the pods are unknown; it is detected again later."""
    reader = make(tmp_path, [cgroup("cgroupfs", "kubepods")], 2)
    assert reader.uids() == frozenset()
    (tmp_path / "sys/fs/cgroup/kubepods").rmdir()
    assert reader.uids() is None
    make(tmp_path, [pod("cgroupfs", ONE, above=("kubelet",))], 2)
    assert reader.uids() == {ONE}


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is out of root's reach")
def test_cgroups_that_cannot_be_read(tmp_path: Path) -> None:
    reader = make(tmp_path, [pod("cgroupfs", ONE)], 2)
    (tmp_path / "sys/fs/cgroup/kubepods").chmod(0)
    assert reader.uids() is None


@given(st.sets(UIDS), st.sampled_from(["cgroupfs", "systemd"]), st.sampled_from(CLASSES))
def test_any_uids(uids: set[str], driver: str, quality: str) -> None:
    """Every UID can be derived from the name of its cgroup."""
    assert pod_uids(os.path.basename(pod(driver, uid, quality)) for uid in uids) == uids


@given(st.sets(st.text()))
def test_any_names(names: set[str]) -> None:
    """For any names, no UID is empty, and there are at most as many UIDs as names."""
    result = pod_uids(names)
    assert "" not in result
    assert len(result) <= len(names)


@pytest.mark.parametrize(
    "name", ["burstable", "kubepods-besteffort.slice", "pod", "kubepods-pod.slice", "podlike-x.slice"]
)
def test_names_that_are_not_pods(name: str) -> None:
    assert pod_uids([name]) == frozenset()
