"""Captures a machine: the files that discovery reads, in one archive for `zonewise show --root`.

Discovery runs once on files that record every result. So the archive contains everything that this version's collectors
read, and a replay yields the same facts. A few more files are added: they help to understand a machine, and later
collectors are likely to read them. Identifiers are removed by default.
"""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from typing import IO, TYPE_CHECKING, NamedTuple, cast

from zonewise.machine.capture.recording import RecordingFiles, Tree
from zonewise.machine.capture.scrubber import NotScrubbed, Scrubber
from zonewise.machine.collectors.gpu.amd_ras import ras_files
from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.reader import Reader
from zonewise.machine.replay import ERRORS, LINK, NAMES, Operation, render_errors

if TYPE_CHECKING:
    from collections.abc import Iterator
    from tarfile import TarFile

    from zonewise.machine.capture.recording import Entries
    from zonewise.machine.files import Files
    from zonewise.machine.model.machine import Machine

ALSO_CAPTURED = (
    # the distribution: NFD has labels for it, and it explains many differences between machines
    "etc/os-release",
    # versions, and features that are compiled in or loaded
    "proc/version",
    "proc/modules",
    "proc/sys/kernel/osrelease",
    "proc/sys/vm/nr_hugepages",
    "proc/sys/vm/overcommit_memory",
    "proc/sys/vm/zone_reclaim_mode",
    "proc/sys/kernel/numa_balancing",
    # memory by zone: pressure, fragmentation, allocations that missed their zone
    "proc/buddyinfo",
    "proc/swaps",
    "sys/devices/system/node/node*/meminfo",
    "sys/devices/system/node/node*/numastat",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/mm/transparent_hugepage/defrag",
    # the effects of security and power settings on the CPUs
    "sys/devices/system/cpu/vulnerabilities/*",
    "sys/devices/system/cpu/smt/control",
    "sys/devices/system/cpu/cpufreq/policy*/scaling_governor",
    "sys/devices/system/cpu/intel_pstate/*",
    "sys/module/kvm_amd/parameters/sev*",
    "sys/module/kvm_intel/parameters/tdx",
    "sys/module/nvidia/version",
    # health: memory errors, links that are down, dead drives, CPUs throttled by heat
    "sys/devices/system/edac/mc/mc*/*_count",
    "sys/devices/system/edac/mc/mc*/dimm*/dimm_*",
    "sys/devices/system/edac/mc/mc*/rank*/dimm_*",
    "sys/class/net/*/carrier",
    "sys/class/net/*/carrier_down_count",
    "sys/class/net/*/phys_port_name",
    "sys/class/nvme/*/state",
    "sys/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count",
)
"""Additional files beyond those that discovery reads. None is large, has a side effect when read, or belongs to a
process."""

_NVIDIA_DRIVER = "sys/bus/pci/drivers/nvidia"
_SUFFIXES = (".tar.zst", ".tar.gz", ".tgz")


class CaptureError(Exception):
    """The capture cannot be written; the message has the reason and a remedy, in one line."""


class Summary(NamedTuple):
    """A summary of a capture."""

    files: int
    """Number of files with content."""
    links: int
    content: int
    """Bytes of content, before compression."""
    archive: int
    """Bytes of the archive."""


def capture(files: Files, destination: str, *, with_identifiers: bool = False, replace: bool = False) -> Summary:
    """Write a capture of a machine to a new .tar.zst or .tar.gz, completely or not at all.

    `with_identifiers` retains the names of the machine; `replace` allows the destination to exist. Raises CaptureError.
    """
    if not destination.endswith(_SUFFIXES):
        raise CaptureError(f"{destination}: the file name must end with {', '.join(_SUFFIXES)}")
    if os.path.exists(destination) and not replace:
        raise CaptureError(f"{destination}: the file exists; choose another name, or use --force")
    entries = capture_entries(files, with_identifiers=with_identifiers)
    contents = [entry for entry in entries.values() if isinstance(entry, bytes)]
    links = sum(isinstance(entry, str) for entry in entries.values())
    return Summary(len(contents), links, sum(map(len, contents)), _write(entries, destination))


def capture_entries(files: Files, *, with_identifiers: bool = False) -> Entries:
    """Return the file tree of a capture. Raises CaptureError if an identifier would remain in it."""
    added = {**_nvml(files), **_kernel_log(files)}
    recording = RecordingFiles(files, added)
    machine = Scanner(recording, explain=True).scan().machine
    _read_error_counts(Reader(recording), machine)
    for pattern in (*added, *ALSO_CAPTURED):
        _read_all(recording, pattern)
    tree = Tree(files)
    # listings first: content that is read later replaces the entry of its listing
    for operation in sorted(recording.results, key=lambda operation: (operation[0] != NAMES, operation)):
        tree.add(operation, recording.results[operation])
    errors = {operation: result for operation, result in recording.results.items() if isinstance(result, int)}
    if with_identifiers:
        return _with_errors(tree.entries, errors)
    scrubber = Scrubber(tree.entries)
    try:
        entries = scrubber.entries(tree.entries)
    except NotScrubbed as error:
        raise CaptureError(f"not captured: {error}; please report it, or use --with-identifiers") from error
    return _with_errors(entries, {(done, scrubber.path(path)): number for (done, path), number in errors.items()})


def _nvml(files: Files) -> dict[str, bytes]:
    """Return the file of a capture that contains NVML's facts; empty for a machine without NVIDIA's driver."""
    try:
        drives = files.live and any(":" in name for name in files.names(_NVIDIA_DRIVER))
    except OSError:
        drives = False
    if not drives:
        return {}
    from zonewise.machine.nvml.child_process import NvmlChild
    from zonewise.machine.nvml.facts_json import CAPTURED, to_json

    return {CAPTURED: to_json(NvmlChild().query()).encode()}


def _kernel_log(files: Files) -> dict[str, bytes]:
    """Return the file of a capture that contains the kernel's records about devices.

    A capture of a capture has the same file. There is none if the log cannot be read, which needs CAP_SYSLOG.
    """
    from zonewise.machine.kernel_log import CAPTURED, relevant_lines

    try:
        return {CAPTURED: relevant_lines() if files.live else files.read(CAPTURED)}
    except OSError:
        return {}


def _read_error_counts(read: Reader, machine: Machine) -> None:
    """Read the error counts of AMD GPUs, unless a read would change them."""
    for gpu in machine.gpus:
        if gpu.vendor == "amd" and gpu.address is not None:
            for path in ras_files(read, f"{DEVICES}/{gpu.address}").values():
                read.raw(path)


def _read_all(files: Files, pattern: str) -> None:
    for path in _matching(files, pattern.split("/"), ""):
        try:
            files.read(path)
        except OSError:
            continue  # recorded as an error


def _matching(files: Files, pattern: list[str], directory: str) -> Iterator[str]:
    """Yield the paths that match a pattern of path elements; elements without a star are not checked for existence."""
    first, rest = pattern[0], pattern[1:]
    names = [first]
    if "*" in first:
        try:
            names = sorted(name for name in files.names(directory) if fnmatchcase(name, first))
        except OSError:
            return
    for name in names:
        path = f"{directory}/{name}" if directory else name
        if rest:
            yield from _matching(files, rest, path)
        else:
            yield path


def _with_errors(entries: Entries, errors: dict[Operation, int]) -> Entries:
    """Add the errors that the tree by itself would not raise."""
    files = MemoryFiles(entries.items())
    unexplained = {operation: number for operation, number in errors.items() if _error(files, operation) != number}
    return {**entries, ERRORS: render_errors(unexplained)} if unexplained else entries


def _error(files: Files, operation: Operation) -> int | None:
    done, path = operation
    try:
        if done == NAMES:
            files.names(path)
        elif done == LINK:
            files.link(path)
        else:
            files.read(path)
    except OSError as error:
        return error.errno
    return None


# --- the archive


def _write(entries: Entries, destination: str) -> int:
    """Write the archive next to its destination, then move it; return its size in bytes."""
    unfinished = f"{destination}.{os.getpid()}.part"
    try:
        try:
            with open(unfinished, "xb") as file:
                _write_compressed(entries, file, destination)
            size = os.path.getsize(unfinished)
            os.replace(unfinished, destination)
        finally:
            if os.path.lexists(unfinished):
                os.unlink(unfinished)
    except OSError as error:
        raise CaptureError(f"cannot write {destination}: {error.strerror}") from error
    return size


def _write_compressed(entries: Entries, file: IO[bytes], destination: str) -> None:
    if destination.endswith(".zst"):
        from zonewise.machine.zstd import zstd

        with zstd.open(file, "wb", level=10) as compressed:
            _write_tar(entries, cast("IO[bytes]", compressed))
        return
    import gzip

    # without its own name and time, the same capture has the same bytes
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as compressed:
        _write_tar(entries, cast("IO[bytes]", compressed))


def _write_tar(entries: Entries, file: IO[bytes]) -> None:
    import tarfile

    with tarfile.open(fileobj=file, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(entries):
            _add(tar, path, entries[path])


def _add(tar: TarFile, path: str, entry: bytes | str | None) -> None:
    import io
    import tarfile

    member = tarfile.TarInfo(path)  # time, owner and group are 0
    if entry is None:
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)
    elif isinstance(entry, str):
        member.type, member.linkname, member.mode = tarfile.SYMTYPE, entry, 0o777
        tar.addfile(member)
    else:
        member.size = len(entry)
        tar.addfile(member, io.BytesIO(entry))
