"""Opens a root: a directory, or a captured archive (.tar, .tar.gz, .tar.bz2, .tar.xz, .tar.zst)."""

from __future__ import annotations

import os
import posixpath
from typing import IO, TYPE_CHECKING, cast

from zonewise.machine.files import DirectoryFiles, Files, MemoryFiles, RootError
from zonewise.machine.replay import with_recorded_errors
from zonewise.machine.running_machine import is_running_machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from tarfile import TarFile, TarInfo

MAX_CAPTURE = 512 << 20
"""Maximum bytes of file content that a capture may unpack to. Discovery reads about 10 MiB on the largest machines. An
archive beyond this size is not a capture, and must not exhaust the memory of the reading process."""
MAX_MEMBERS = 200_000
"""Maximum number of files, directories and links in a capture: ten times the number of the largest machines."""

_BYTES_PER_MEMBER = 2048
"""Bytes of an archive besides the content: a header, another for a long name, and the rest of the last block."""
_SEARCH_DEPTH = 3  # archives have one top directory, some of them another one below it


def open_root(path: str) -> Files:
    """Open a machine's root: a directory or an archive. Raise RootError with a one-line message.

    The root is the shallowest folder that contains `sys` or `proc`. It may be one or two directories below `path`, as
    in an archive with a top directory.
    """
    if os.path.isdir(path):
        root = _directory_root(path)
        files = DirectoryFiles(root, live=is_running_machine(root))
        return files if files.live else with_recorded_errors(files)
    if not os.path.exists(path):
        raise RootError(f"root {path}: no such file or directory")
    return with_recorded_errors(MemoryFiles(_below_root(path, _unpack(path))))


def _directory_root(path: str) -> str:
    level = [path]
    for _ in range(_SEARCH_DEPTH):
        roots = [directory for directory in level if _holds_machine(directory)]
        if len(roots) > 1:
            raise RootError(
                f"root {path}: contains several machines, such as {roots[0]} and {roots[1]}: select one of them"
            )
        if roots:
            return roots[0]
        level = [entry.path for directory in level for entry in _directories(directory)]
    raise RootError(f"root {path}: contains neither sys/ nor proc/")


def _holds_machine(path: str) -> bool:
    return any(os.path.isdir(os.path.join(path, name)) for name in ("sys", "proc"))


def _directories(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            directories = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []
    return sorted(directories, key=lambda entry: entry.name)


def _unpack(path: str) -> list[tuple[str, bytes | str | None]]:
    import lzma
    import tarfile
    import zlib

    from zonewise.machine.archive_stream import TooLargeError
    from zonewise.machine.zstd import zstd

    damage = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, ValueError)
    try:
        with open(path, "rb") as file, _tar(file) as tar:
            contents = list(_members(tar, path))
    except TooLargeError as error:
        raise _too_large(path) from error
    except damage as error:
        raise RootError(f"root {path}: not a complete archive: {_reason(error)}") from error
    return contents


def _reason(error: Exception) -> str:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    if "header" in reason or not reason or reason == "empty file":
        return "not a tar archive, uncompressed or compressed with gzip, bzip2, xz or zstd"
    return " ".join(reason.split())


def _tar(file: IO[bytes]) -> TarFile:
    import tarfile

    from zonewise.machine.archive_stream import BoundedStream, StrictHeader

    stream = BoundedStream(file, MAX_CAPTURE + _BYTES_PER_MEMBER * MAX_MEMBERS)
    return tarfile.open(fileobj=cast("IO[bytes]", stream), mode="r|", tarinfo=StrictHeader)


def _too_large(path: str) -> RootError:
    return RootError(f"root {path}: unpacks to more than {MAX_CAPTURE >> 20} MiB; not a capture")


def _members(tar: TarFile, path: str) -> Iterator[tuple[str, bytes | str | None]]:
    left, count = MAX_CAPTURE, 0
    while member := _next_member(tar, path):
        # otherwise tarfile retains every header: 10 MiB for the 256-CPU machine
        tar.members = []  # pyright: ignore[reportAttributeAccessIssue]  # public, and missing in typeshed
        count += 1
        if count > MAX_MEMBERS:
            raise RootError(f"root {path}: contains more than {MAX_MEMBERS:,} files and directories; not a capture")
        name = posixpath.normpath(member.name.lstrip("/"))
        if name.startswith("..") or name == ".":
            continue
        if member.isdir():
            yield name, None
        elif member.issym():
            yield name, member.linkname
        elif member.islnk():
            # a hard link's target is a path in the archive; as a link relative to the archive's root it reads the same
            yield name, "/" + posixpath.normpath(member.linkname.lstrip("/"))
        elif member.isreg():
            left -= member.size
            if left < 0:
                raise _too_large(path)
            content = tar.extractfile(member)
            yield name, content.read() if content else b""


def _next_member(tar: TarFile, path: str) -> TarInfo | None:
    """Return the next member. If it is damaged, this is an archive nevertheless, as its first header was valid."""
    import tarfile

    try:
        return tar.next()
    except tarfile.ReadError as error:
        raise RootError(f"root {path}: not a complete archive: truncated or damaged") from error


def _below_root(path: str, contents: list[tuple[str, bytes | str | None]]) -> Iterator[tuple[str, bytes | str | None]]:
    root = _archive_root(path, contents)
    prefix = f"{root}/" if root else ""
    for name, content in contents:
        if name.startswith(prefix):
            hard = isinstance(content, str) and content.startswith(f"/{prefix}") and bool(prefix)
            yield name.removeprefix(prefix), content[len(prefix) :] if hard and isinstance(content, str) else content


def _archive_root(path: str, contents: list[tuple[str, bytes | str | None]]) -> str:
    best: tuple[int, str] | None = None
    for name, content in contents:
        parts = name.split("/")
        for depth in range(min(len(parts), _SEARCH_DEPTH)):
            is_directory = depth < len(parts) - 1 or content is None
            if is_directory and parts[depth] in ("sys", "proc"):
                best = min(best or (depth, name), (depth, "/".join(parts[:depth])))
                break
    if best is None:
        raise RootError(f"root {path}: contains neither sys/ nor proc/")
    return best[1]
