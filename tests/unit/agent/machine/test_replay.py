"""Recorded errors, and the tree in which the same operations have the same results."""

from __future__ import annotations

import errno
import os
import posixpath
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise.machine.capture.recording import NOT_CAPTURED, RecordingFiles, Tree
from zonewise.machine.files import MemoryFiles
from zonewise.machine.replay import (
    ERRORS,
    LINK,
    NAMES,
    READ,
    Operation,
    parse_errors,
    render_errors,
    with_recorded_errors,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise.machine.capture.recording import Entries, OperationResult
    from zonewise.machine.files import Files


class UnreadableFiles(MemoryFiles):
    """Files of which some cannot be read."""

    def __init__(self, entries: Entries, unreadable: dict[str, int]) -> None:
        super().__init__(entries.items())
        self._unreadable = unreadable

    def read(self, path: str) -> bytes:
        if path in self._unreadable:
            raise OSError(self._unreadable[path], os.strerror(self._unreadable[path]), path)
        return super().read(path)


def outcome(files: Files, operation: Operation) -> OperationResult:
    done, path = operation
    try:
        if done == NAMES:
            # a capture's root has its own directory, which no collector lists
            return sorted(set(files.names(path)) - {posixpath.dirname(ERRORS)})
        return files.link(path) if done == LINK else files.read(path)
    except OSError as error:
        return error.errno or errno.EIO


def record_and_replay(files: Files, operations: list[Operation]) -> Files:
    """Perform the operations and return the files in which they can be repeated."""
    recording = RecordingFiles(files, {})
    for operation in operations:
        outcome(recording, operation)
    tree = Tree(files)
    for operation in sorted(recording.results, key=lambda key: (key[0] != NAMES, key)):
        tree.add(operation, recording.results[operation])
    plain = MemoryFiles(tree.entries.items())
    errors = {
        operation: number
        for operation, number in recording.results.items()
        if isinstance(number, int) and outcome(plain, operation) != number
    }
    return with_recorded_errors(MemoryFiles({**tree.entries, ERRORS: render_errors(errors)}.items()))


def possible(entries: Mapping[str, bytes | str | None]) -> Entries:
    """Return the tree without entries below a file or a link, which no file system has."""
    solid = {path for path, entry in entries.items() if entry is not None}
    return {
        path: entry for path, entry in entries.items() if not any(path.startswith(f"{prefix}/") for prefix in solid)
    }


PATH = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3).map("/".join)
TARGET = st.builds("{}{}".format, st.sampled_from(["", "/", "../", "../../", "../../../"]), PATH)
ENTRIES = st.dictionaries(PATH, st.one_of(st.none(), st.binary(max_size=3), TARGET), max_size=8).map(possible)
PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=5).map("/".join)
OPERATIONS = st.lists(st.tuples(st.sampled_from([READ, NAMES, LINK]), PATHS), max_size=10)


@settings(max_examples=500)
@given(ENTRIES, OPERATIONS, st.dictionaries(PATH, st.sampled_from([errno.EACCES, errno.EINVAL, errno.EIO]), max_size=3))
def test_a_replay_has_the_same_results(
    entries: Entries, operations: list[Operation], unreadable: dict[str, int]
) -> None:
    """For any tree with links, loops and errors, a recorded operation has the same result in the replay."""
    files = UnreadableFiles(entries, unreadable)
    again = record_and_replay(files, operations)
    for operation in operations:
        assert outcome(again, operation) == outcome(files, operation), operation


def test_errors_are_replayed() -> None:
    """Reading the speed of a link that is down fails with EINVAL, in the replay too."""
    files = UnreadableFiles(
        {"sys/class/net/eth0/speed": b"", "sys/class/net/eth0/mtu": b"1500\n"},
        {"sys/class/net/eth0/speed": errno.EINVAL},
    )
    again = record_and_replay(files, [(READ, "sys/class/net/eth0/speed"), (READ, "sys/class/net/eth0/mtu")])
    assert outcome(again, (READ, "sys/class/net/eth0/speed")) == errno.EINVAL
    assert outcome(again, (READ, "sys/class/net/eth0/mtu")) == b"1500\n"


def test_an_error_without_a_name_is_replayed() -> None:
    """A driver may return an error that only the kernel has: ENOTSUPP is 524 (include/linux/errno.h)."""
    again = record_and_replay(UnreadableFiles({"sys/x": b""}, {"sys/x": 524}), [(READ, "sys/x")])
    assert outcome(again, (READ, "sys/x")) == 524


def test_files_that_are_listed_but_not_read() -> None:
    """A listing is complete. Files that discovery did not read are absent for a reader, and no content is invented."""
    files = MemoryFiles([("d/read", b"1"), ("d/unread", b"2"), ("d/below/file", b"3"), ("d/link", "read")])
    again = record_and_replay(files, [(NAMES, "d"), (READ, "d/read")])
    assert sorted(again.names("d")) == ["below", "link", "read", "unread"]
    assert outcome(again, (READ, "d/unread")) == errno.ENOENT
    assert again.link("d/unread") == NOT_CAPTURED
    assert again.link("d/link") == "read"
    assert again.names("d/below") == []


def test_files_remain_at_their_paths() -> None:
    """A file that is reached through a link is stored at its own path, together with the link."""
    files = MemoryFiles([("sys/devices/x/vendor", b"0x10de\n"), ("sys/bus/x", "../devices/x")])
    recording = RecordingFiles(files, {})
    recording.read("sys/bus/x/vendor")
    tree = Tree(files)
    tree.add((READ, "sys/bus/x/vendor"), b"0x10de\n")
    assert tree.entries == {"sys/bus/x": "../devices/x", "sys/devices/x/vendor": b"0x10de\n"}


def test_added_files_are_read_like_recorded_files() -> None:
    """The results of a driver's queries are a file of the capture."""
    recording = RecordingFiles(MemoryFiles([]), {"zonewise/nvml.json": b"{}"})
    assert recording.read("zonewise/nvml.json") == b"{}"
    assert recording.results == {(READ, "zonewise/nvml.json"): b"{}"}


@given(
    st.dictionaries(
        st.tuples(st.sampled_from([READ, NAMES, LINK]), st.text(min_size=1).filter(lambda path: "\n" not in path)),
        st.sampled_from(list(errno.errorcode)),
    )
)
def test_errors_are_written_and_read(errors: dict[Operation, int]) -> None:
    """The list of errors survives a round trip, whatever the paths are."""
    writable = {operation: number for operation, number in errors.items() if _encodes(operation[1])}
    assert parse_errors(render_errors(writable)) == writable


def _encodes(path: str) -> bool:
    try:
        path.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


@given(st.binary(max_size=100))
def test_a_damaged_list_of_errors_has_fewer_errors(content: bytes) -> None:
    """Garbage in the list loses only the list, not the capture."""
    assert all(isinstance(number, int) for number in parse_errors(content).values())


@pytest.mark.parametrize("line", ["read EINVAL", "read NOTHING sys/x", "read environ sys/x", "", "read  sys/x",
                                  "read 0 sys/x", "read 99999999999999999999 sys/x"])  # fmt: skip
def test_damaged_lines_are_skipped(line: str) -> None:
    """A line without a path, or with an unknown name of an error, is skipped."""
    assert parse_errors(line.encode()) == {}


def test_files_without_a_list_are_not_wrapped() -> None:
    """A directory that is not a capture is not wrapped."""
    files = MemoryFiles([("sys/x", b"1")])
    assert with_recorded_errors(files) is files
