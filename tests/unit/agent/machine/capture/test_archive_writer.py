"""Captures: a replay gives the same machine, nothing identifies it, and the archive is complete or absent."""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
from typing import TYPE_CHECKING, Any, cast

import pytest

from support.disk import lay_out
from support.snapshots import ABSENT, files_of, scan_of, snapshots
from support.trees import Shape, machine_tree, server_tree
from zonewise.machine.archive import open_root
from zonewise.machine.capture import archive_writer
from zonewise.machine.capture.archive_writer import ALSO_CAPTURED, CaptureError, capture, capture_entries
from zonewise.machine.capture.recording import RecordingFiles
from zonewise.machine.capture.scrubber import NotScrubbed, Scrubber
from zonewise.machine.discover import Scanner
from zonewise.machine.files import DirectoryFiles, MemoryFiles
from zonewise.machine.replay import with_recorded_errors
from zonewise.machine.zstd import zstd
from zonewise.objects.machine_json import machine_to_json, render_json

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zonewise.machine.capture.recording import Entries
    from zonewise.machine.files import Files

SERVER = MemoryFiles(server_tree().items())


def facts(files: Files) -> str:
    return render_json(machine_to_json(Scanner(with_recorded_errors(files)).scan().machine))


def facts_of_snapshot(name: str) -> str:
    """Return the facts of a captured machine, from the scan that other tests share."""
    return render_json(machine_to_json(scan_of(name).machine))


@pytest.mark.parametrize("tree", [server_tree(), machine_tree(Shape(packages=1, zones=1, adjacent=True, offline=(3,)))])
def test_a_replay_is_the_same_machine(tree: Entries) -> None:
    """With identifiers, the replay gives the same JSON byte for byte."""
    files = MemoryFiles(tree.items())
    assert facts(MemoryFiles(capture_entries(files, with_identifiers=True).items())) == facts(files)


@pytest.mark.skipif(not snapshots(), reason=ABSENT)
@pytest.mark.parametrize("name", snapshots())
def test_every_captured_machine_replays(name: str) -> None:
    """With identifiers, every captured machine replays exactly."""
    replay = MemoryFiles(capture_entries(files_of(name), with_identifiers=True).items())
    assert facts(replay) == facts_of_snapshot(name)


@pytest.mark.skipif(not snapshots(), reason=ABSENT)
@pytest.mark.parametrize("name", snapshots())
def test_scrubbing_removes_no_fact(name: str) -> None:
    """Without identifiers, every fact remains; only addresses and names differ."""
    before = json.loads(facts_of_snapshot(name))
    after = json.loads(facts(MemoryFiles(capture_entries(files_of(name)).items())))
    assert _shape(after) == _shape(before)
    for part in ("cpus", "cores", "caches", "zones", "packages", "links", "memory", "problems"):
        assert after[part] == before[part]


def _shape(value: Any) -> object:
    """Return a document with its strings replaced by their type."""
    if isinstance(value, dict):
        return [_shape(part) for part in cast("dict[str, Any]", value).values()]
    if isinstance(value, list):
        return [_shape(part) for part in cast("list[Any]", value)]
    return type(value) if isinstance(value, str) else value


def test_the_running_machine(tmp_path: Path) -> None:
    """A capture of the machine that runs the test can be shown elsewhere."""
    archive = str(tmp_path / "live.tar.gz")
    summary = capture(DirectoryFiles("/"), archive)
    assert summary.files > 10
    assert json.loads(facts(open_root(archive)))["cpus"]["online"]


def test_a_capture_of_a_capture_is_the_same() -> None:
    """The capture of a capture is the same, so nothing is lost."""
    once = capture_entries(SERVER)
    assert facts(MemoryFiles(capture_entries(with_recorded_errors(MemoryFiles(once.items()))).items())) == facts(
        MemoryFiles(once.items())
    )


def test_an_unpacked_capture(tmp_path: Path) -> None:
    """A capture unpacked by tar gives the same machine as the archive."""
    archive = str(tmp_path / "m.tar.gz")
    capture(SERVER, archive)
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path / "m", filter="fully_trusted")  # noqa: S202 -- our own
    assert facts(open_root(str(tmp_path / "m"))) == facts(open_root(archive))


@pytest.mark.parametrize("ending", [".tar.gz", ".tgz", ".tar.zst"])
def test_archive_is_deterministic(ending: str, tmp_path: Path) -> None:
    """Two captures of one machine are equal, so they can be compared and deduplicated."""
    for name in ("a", "b"):
        capture(SERVER, str(tmp_path / f"{name}{ending}"))
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()
    assert facts(open_root(str(tmp_path / f"a{ending}"))) == facts(MemoryFiles(capture_entries(SERVER).items()))


def test_archive_has_no_time_and_no_owner(tmp_path: Path) -> None:
    """Members have no time and no owner, and are sorted by name."""
    capture(SERVER, str(tmp_path / "m.tar.gz"))
    with tarfile.open(tmp_path / "m.tar.gz") as tar:
        members = tar.getmembers()
    assert {(member.mtime, member.uid, member.gid, member.uname, member.gname) for member in members} == {
        (0, 0, 0, "", "")
    }
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert (tmp_path / "m.tar.gz").read_bytes()[4:8] == bytes(4)  # the time in gzip's header


def test_the_summary(tmp_path: Path) -> None:
    """The summary counts what the archive holds."""
    summary = capture(SERVER, str(tmp_path / "m.tar.zst"))
    content = zstd.decompress((tmp_path / "m.tar.zst").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        members = tar.getmembers()
    assert summary.files == sum(member.isreg() for member in members)
    assert summary.links == sum(member.issym() for member in members)
    assert summary.content == sum(member.size for member in members if member.isreg())
    assert summary.archive == (tmp_path / "m.tar.zst").stat().st_size


# --- nothing identifies the machine

SECRETS = {
    "hostname": "gpu-07-rack4",
    "mac": "b8:ce:f6:12:34:56",
    "guid": "b8ce:f603:0012:3456",
    "gid": "fe80:0000:0000:0000:bace:f6ff:fe12:3456",
    "address": "0000:0000:0000:0000:0000:ffff:0a01:0203",
    "uuid": "6f1c2a4e-93bd-4c1b-8e55-0123456789ab",
    "server": "fileserver.example.com",
    "password": "hunter2",
    "ip": "10.99.88.77",
}


def tree_with_identifiers() -> Entries:
    """Return a server with its name in files of every kind."""
    tree: Entries = dict(server_tree())
    nic = next(path.removesuffix("/address") for path in tree if path.endswith("net/ib0/address"))
    hca = nic.replace("net/ib0", "infiniband/mlx5_0")
    values = {
        "proc/sys/kernel/hostname": SECRETS["hostname"],
        "proc/cmdline": f"root=UUID={SECRETS['uuid']} ip={SECRETS['ip']} token={SECRETS['password']} isolcpus=2-3",
        f"{nic}/address": SECRETS["mac"],
        f"{hca}/node_guid": SECRETS["guid"],
        f"{hca}/node_desc": f"{SECRETS['hostname']} mlx5_0",
        f"{hca}/ports/1/gids/0": SECRETS["gid"],
        f"{hca}/ports/1/gids/1": SECRETS["address"],
        "proc/self/mountinfo": f"30 22 0:27 / /home rw - nfs4 {SECRETS['server']}:/home rw,addr={SECRETS['ip']}",
        "proc/self/cgroup": f"0::/kubepods.slice/pod{SECRETS['uuid'].replace('-', '_')}.slice",
        "proc/mounts": f"{SECRETS['server']}:/home /home nfs4 rw,addr={SECRETS['ip']} 0 0",
    }
    return tree | {path: f"{text}\n".encode() for path, text in values.items()}


def everything(entries: Entries) -> str:
    parts = [
        *entries,
        *(entry.decode("latin-1") if isinstance(entry, bytes) else entry or "" for entry in entries.values()),
    ]
    return "\n".join(parts).lower()


def test_nothing_that_names_the_machine_is_left() -> None:
    """No path, link or content contains an address, name, id, server or password of the machine, in any form."""
    text = everything(capture_entries(MemoryFiles(tree_with_identifiers().items())))
    for secret in SECRETS.values():
        assert secret not in text
        assert secret.replace(":", "") not in text
        assert secret.replace("-", "_") not in text


def test_with_identifiers_retains_them() -> None:
    """With `with_identifiers`, the capture contains the identifiers."""
    text = everything(capture_entries(MemoryFiles(tree_with_identifiers().items()), with_identifiers=True))
    assert SECRETS["hostname"] in text
    assert SECRETS["mac"] in text


def test_facts_of_the_hardware_remain() -> None:
    """Bus addresses, models, sizes and kernel settings remain: they are the purpose of a capture."""
    entries = capture_entries(MemoryFiles(tree_with_identifiers().items()))
    machine = Scanner(MemoryFiles(entries.items())).scan().machine
    assert machine._replace(hostname=None, kernel=machine.kernel, nics=(), infiniband=()) == (
        Scanner(MemoryFiles(tree_with_identifiers().items()))
        .scan()
        .machine._replace(hostname=None, kernel=machine.kernel, nics=(), infiniband=())
    )
    assert {nic.address for nic in machine.nics} == {nic.address for nic in Scanner(SERVER).scan().machine.nics}


def test_capture_fails_if_an_identifier_would_remain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No archive is written rather than one with an identifier."""

    def leaky(self: Scrubber, entries: Entries) -> Entries:
        raise NotScrubbed("/x would still contain an identifier (b8:c...)")

    monkeypatch.setattr(Scrubber, "entries", leaky)
    with pytest.raises(CaptureError, match=r"/x would still contain an identifier \(b8:c\.\.\.\); please report it"):
        capture(SERVER, str(tmp_path / "m.tar.gz"))
    assert list(tmp_path.iterdir()) == []


# --- the file


def test_the_endings(tmp_path: Path) -> None:
    """The file name selects the compression; an unknown ending is rejected before anything is read."""
    with pytest.raises(CaptureError, match=r"must end with \.tar\.zst, \.tar\.gz, \.tgz"):
        capture(SERVER, str(tmp_path / "machine.zip"))


def test_an_existing_file_is_not_replaced(tmp_path: Path) -> None:
    """The existing file is unchanged."""
    (tmp_path / "m.tgz").write_bytes(b"precious")
    with pytest.raises(CaptureError, match="the file exists"):
        capture(SERVER, str(tmp_path / "m.tgz"))
    capture(SERVER, str(tmp_path / "m.tgz"), replace=True)
    assert gzip.decompress((tmp_path / "m.tgz").read_bytes())


def test_the_archive_is_complete_or_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk leaves neither a partial file nor damage to the old one."""
    (tmp_path / "m.tar.gz").write_bytes(b"precious")

    def full(entries: Entries, file: io.BytesIO, destination: str) -> None:
        file.write(b"part")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(archive_writer, "_write_compressed", full)
    with pytest.raises(CaptureError, match=f"cannot write .*: {os.strerror(28)}"):
        capture(SERVER, str(tmp_path / "m.tar.gz"), replace=True)
    assert [path.name for path in tmp_path.iterdir()] == ["m.tar.gz"]
    assert (tmp_path / "m.tar.gz").read_bytes() == b"precious"


def test_destination_that_cannot_be_written(tmp_path: Path) -> None:
    """The message contains the operating system's reason."""
    with pytest.raises(CaptureError, match=r"cannot write .*: No such file or directory"):
        capture(SERVER, str(tmp_path / "no" / "m.tar.gz"))


# --- what is captured


def test_also_captured_files_are_read() -> None:
    """Files that no collector reads are captured at their paths, including those that match a wildcard."""
    tree: Entries = {
        **server_tree(),
        "etc/os-release": b"ID=debian\n",
        "sys/devices/system/cpu/vulnerabilities/mds": b"ok\n",
    }
    entries = capture_entries(MemoryFiles(tree.items()))
    assert entries["etc/os-release"] == b"ID=debian\n"
    assert entries["sys/devices/system/cpu/vulnerabilities/mds"] == b"ok\n"
    assert "etc/hostname" not in entries


def test_no_other_process_is_read() -> None:
    """Only files of the own process are read."""
    assert not any(path.startswith("proc/[0-9*]") or "/fd" in path for path in ALSO_CAPTURED)


def test_nvml_is_not_called_without_an_nvidia_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML is called only on a running machine that has the driver."""
    monkeypatch.setitem(__import__("sys").modules, "zonewise.machine.nvml.child_process", None)
    assert "zonewise/nvml.json" not in capture_entries(SERVER)


class Live(MemoryFiles):
    """Files that pretend to be those of the running machine."""

    live = True


def test_nvml_is_called_once_and_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's facts are stored as a file, which the replay reads."""
    from zonewise.machine.nvml import child_process
    from zonewise.machine.nvml.facts import NvmlFacts

    calls: list[None] = []

    def count_query(self: child_process.NvmlChild) -> NvmlFacts:
        calls.append(None)
        return NvmlFacts(problem="the driver is not loaded")

    monkeypatch.setattr(child_process.NvmlChild, "query", count_query)
    tree: Entries = {**server_tree(), "sys/bus/pci/drivers/nvidia/0000:19:00.0": "../../../../devices/x"}
    entries = capture_entries(Live(tree.items()))
    assert entries["zonewise/nvml.json"] == b'{"problem":"the driver is not loaded"}'
    assert len(calls) == 1


def test_recorded_files_are_not_a_live_machine() -> None:
    """Otherwise, discovery could make queries that bypass the recording."""
    assert not RecordingFiles(Live([]), {}).live


def test_a_directory_gives_the_same_capture_as_memory(tmp_path: Path) -> None:
    """Files on disk give the same capture as the same files in memory."""
    build: Callable[[], Entries] = server_tree
    assert capture_entries(DirectoryFiles(str(lay_out(build(), tmp_path)))) == capture_entries(SERVER)
