"""The three kinds of roots are read alike: a directory, an archive in memory, and the live machine."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise.machine.files import READ_LIMIT, DirectoryFiles, Files, MemoryFiles, RootError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

CONTENTS: list[tuple[str, bytes | str | None]] = [
    ("sys/devices/system/cpu/online", b"0-3\n"),
    ("sys/devices/pci0000:00/0000:00:01.0/class", b"0x030200\n"),
    ("sys/devices/pci0000:00/0000:00:01.0/empty", b""),
    ("sys/bus/pci/devices/0000:00:01.0", "../../../devices/pci0000:00/0000:00:01.0"),
    ("sys/class/none", None),
    ("sys/loop", "loop"),
    ("sys/dangling", "nowhere/at/all"),
    ("sys/absolute", "/sys/devices/system"),
    ("proc/big", b"x" * 200_000),
    ("etc/passwd", b"captured"),
    ("etc/absolute", "/etc/passwd"),
    ("etc/up", "../../../../../../../../etc/passwd"),
    ("etc/all", "/"),
]


PARTS = st.sampled_from(("a", "b", ".", ".."))
PATHS = st.lists(PARTS, min_size=1, max_size=4).map("/".join)
LINKS = st.builds("".join, st.tuples(st.sampled_from(("", "/")), PATHS))
TREES = st.dictionaries(st.sampled_from(("a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/b")), LINKS | st.just(b"inside"))


def in_memory(_: Path) -> Files:
    return MemoryFiles(CONTENTS)


def in_directory(directory: Path) -> Files:
    write(directory, CONTENTS)
    return DirectoryFiles(str(directory))


def write(directory: Path, contents: Iterable[tuple[str, bytes | str | None]]) -> None:
    for path, content in contents:
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            target.mkdir(exist_ok=True)
        elif isinstance(content, str):
            target.symlink_to(content)
        else:
            target.write_bytes(content)


@pytest.fixture(params=[in_memory, in_directory], ids=["memory", "directory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    make: Callable[[Path], Files] = request.param
    return make(tmp_path)


def errno_of(call: Callable[[str], object], path: str) -> int | None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 -- its number is what the test looks at
        call(path)
    return caught.value.errno


def test_reads_a_file(files: Files) -> None:
    """The content of a file is complete."""
    assert files.read("sys/devices/system/cpu/online") == b"0-3\n"
    assert files.read("sys/devices/pci0000:00/0000:00:01.0/empty") == b""
    assert files.read("proc/big") == b"x" * 200_000


def test_reads_through_links(files: Files) -> None:
    """A link in the middle of a path is followed, as the kernel does."""
    assert files.read("sys/bus/pci/devices/0000:00:01.0/class") == b"0x030200\n"
    assert files.names("sys/absolute") == ["cpu"]


def test_lists_names(files: Files) -> None:
    """The names in a directory are unordered and exclude dot entries."""
    assert sorted(files.names("sys/bus/pci/devices/0000:00:01.0")) == ["class", "empty"]
    assert files.names("sys/class/none") == []


def test_returns_the_text_of_a_link(files: Files) -> None:
    """The text of a link is returned, not its target."""
    assert files.link("sys/bus/pci/devices/0000:00:01.0") == "../../../devices/pci0000:00/0000:00:01.0"
    assert files.link("sys/dangling") == "nowhere/at/all"


def test_fails_as_the_kernel_does(files: Files) -> None:
    """A path that is absent, looped or of another kind gives the kernel's own error number."""
    assert errno_of(files.read, "sys/absent") == errno.ENOENT
    assert errno_of(files.read, "sys/dangling") == errno.ENOENT
    assert errno_of(files.read, "sys/loop") == errno.ELOOP
    assert errno_of(files.read, "sys/class/none") == errno.EISDIR
    assert errno_of(files.names, "sys/absent") == errno.ENOENT
    assert errno_of(files.names, "sys/devices/system/cpu/online") == errno.ENOTDIR
    assert errno_of(files.link, "sys/absent") == errno.ENOENT
    assert errno_of(files.link, "sys/class/none") == errno.EINVAL
    assert errno_of(files.link, "sys/devices/system/cpu/online") == errno.EINVAL


def test_each_read_has_the_same_result(files: Files) -> None:
    """MemoryFiles resolves a path once. A path that was read before gives the same content or error."""
    for _ in range(2):
        assert files.read("sys/bus/pci/devices/0000:00:01.0/class") == b"0x030200\n"
        assert files.names("sys/absolute") == ["cpu"]
        assert files.link("sys/dangling") == "nowhere/at/all"
        assert errno_of(files.read, "sys/dangling") == errno.ENOENT
        assert errno_of(files.read, "sys/loop") == errno.ELOOP


def test_a_path_cannot_leave_the_root(files: Files) -> None:
    """A leading slash or a NUL, which a file may contain, fails or stays inside the root."""
    assert files.read("/sys/devices/system/cpu/online") == b"0-3\n"
    assert errno_of(files.read, "sys/a\0b") == errno.ENOENT
    assert errno_of(files.names, "sys/a\0b") == errno.ENOENT


def test_a_link_cannot_leave_the_root(files: Files) -> None:
    """An absolute link and too many ".." lead to the root of the captured machine, on the first read and on later
    ones.
    """
    for _ in range(2):
        for name in ("absolute", "up", "all/etc/passwd", "../../../etc/passwd", "all/../../etc/up"):
            assert files.read(f"etc/{name}") == b"captured"
        for path in ("etc/all", "..", "sys/../..", "etc/all/../.."):
            assert sorted(files.names(path)) == ["etc", "proc", "sys"]
        assert sorted(files.names("etc/all/etc")) == ["absolute", "all", "passwd", "up"]
        assert files.link("etc/all/../../etc/absolute") == "/etc/passwd"


@given(TREES, st.lists(st.tuples(st.sampled_from(("a", "b", "c", "d/a", "d/e/b", "d/..")), PATHS), min_size=1))
def test_a_directory_is_read_like_an_archive(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes | str], reads: list[tuple[str, str]]
) -> None:
    """Whatever its links are, a directory never gives the content of the equal names around it."""
    outside = tmp_path_factory.mktemp("tree")
    write(outside, [(f"{above}{name}", b"outside") for above in ("", "1/") for name in ("a", "b")])
    write(outside / "1/2", [("d", None), *tree.items()])
    directory, archive = DirectoryFiles(str(outside / "1/2")), MemoryFiles(tree.items())
    for path in (step for first, rest in reads for step in (first, f"{first}/{rest}")):
        assert content_of(directory, path) == content_of(archive, path)


def content_of(files: Files, path: str) -> bytes | None:
    try:
        return files.read(path)
    except OSError:
        return None


def test_the_links_of_the_running_machine_are_those_of_the_kernel(tmp_path: Path) -> None:
    """The image has a link from /host/proc to the container's own /proc."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_bytes(b"own")
    (tmp_path / "host").mkdir()
    (tmp_path / "host/proc").symlink_to(tmp_path / "proc")
    files = DirectoryFiles(str(tmp_path / "host"), live=True)
    assert files.read("proc/meminfo") == b"own"
    assert files.names("proc") == ["meminfo"]
    assert files.link("proc") == str(tmp_path / "proc")


def test_a_link_that_replaces_a_directory_cannot_leave_the_root(tmp_path: Path) -> None:
    """A live directory may change between two reads."""
    files = in_directory(tmp_path)
    assert files.read("etc/passwd") == b"captured"
    (tmp_path / "etc/passwd").unlink()
    (tmp_path / "etc/passwd").symlink_to("/etc/passwd")
    assert errno_of(files.read, "etc/passwd") == errno.ELOOP


def test_a_capture_is_not_live(files: Files) -> None:
    """Only the root directory is the running machine."""
    assert not files.live
    assert DirectoryFiles("/").live


def test_a_file_and_a_directory_of_equal_name() -> None:
    """If a damaged archive contains both, the first is used, and nothing else is lost."""
    files = MemoryFiles([("sys/a", b"1"), ("sys/a/b", b"2"), ("sys/c/d", b"3"), ("sys/c", b"4"), ("sys/e", b"5")])
    assert files.read("sys/a") == b"1"
    assert files.names("sys/c") == ["d"]
    assert files.read("sys/e") == b"5"


def test_a_file_of_proc_that_comes_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One read returns as many whole records as fit into a page (fs/seq_file.c seq_read_iter); the file has more."""
    content = b"nvme 65536 2 - Live 0xffffffffc0a00000\n" * 300
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/modules").write_bytes(content)
    read = os.read

    def read_records(descriptor: int, size: int) -> bytes:
        return read(descriptor, min(size, 4050))

    monkeypatch.setattr(os, "read", read_records)
    assert DirectoryFiles(str(tmp_path)).read("proc/modules") == content


def test_a_live_file_of_proc_is_whole() -> None:
    """A Python process has more mappings than fit into a page."""
    mappings = DirectoryFiles("/").read("proc/self/maps")
    assert len(mappings) > 8192
    assert mappings.endswith(b"\n")


def test_a_sysfs_attribute_takes_one_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel returns it whole, and a machine has thousands of attributes."""
    (tmp_path / "sys").mkdir()
    (tmp_path / "sys/online").write_bytes(b"0-3\n")
    read, sizes = os.read, list[int]()

    def count(descriptor: int, size: int) -> bytes:
        sizes.append(size)
        return read(descriptor, size)

    monkeypatch.setattr(os, "read", count)
    assert DirectoryFiles(str(tmp_path)).read("sys/online") == b"0-3\n"
    assert len(sizes) == 1


def test_the_links_of_a_directory_are_followed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device has dozens of attributes, and each path to it has links."""
    (tmp_path / "device").mkdir()
    (tmp_path / "class").mkdir()
    (tmp_path / "class/eth0").symlink_to("../device")
    for name in ("mtu", "speed"):
        (tmp_path / "device" / name).write_text(name)
    files = DirectoryFiles(str(tmp_path))
    assert files.read("class/eth0/mtu") == b"mtu"
    monkeypatch.setattr(os, "readlink", None)  # a call would fail
    assert files.read("class/eth0/speed") == b"speed"
    assert sorted(files.names("device")) == ["mtu", "speed"]


def test_a_fifo_does_not_hang(tmp_path: Path) -> None:
    """A FIFO in place of a file is read as empty at once, instead of waiting for a writer."""
    (tmp_path / "sys").mkdir()
    os.mkfifo(tmp_path / "sys" / "fifo")
    files = DirectoryFiles(str(tmp_path))
    assert files.read("sys/fifo") == b""
    assert errno_of(files.names, "sys/fifo") == errno.ENOTDIR


def test_a_huge_file_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """However long a file is, it takes no more memory than the limit."""
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(READ_LIMIT * 3)
    assert READ_LIMIT <= len(DirectoryFiles(str(tmp_path)).read("huge")) <= READ_LIMIT + 65536


def test_a_root_that_is_not_a_directory_is_an_error(tmp_path: Path) -> None:
    """A root that cannot be opened is named in one line."""
    with pytest.raises(RootError, match="absent: No such file or directory"):
        DirectoryFiles(str(tmp_path / "absent"))
    (tmp_path / "node.tar.gz").touch()
    with pytest.raises(RootError, match=r"node\.tar\.gz: not a directory; unpack an archive first"):
        DirectoryFiles(str(tmp_path / "node.tar.gz"))
