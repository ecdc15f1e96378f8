"""The captured machines beside the project, and hwloc's and lscpu's results for them, all read as data by path."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.machine.archive import open_root
from zonewise.machine.discover import Scan, Scanner

if TYPE_CHECKING:
    from zonewise.machine.files import Files

PROJECT = Path(__file__).resolve().parents[2]
SNAPSHOTS = PROJECT.parent / "shared" / "snapshots"
UNPACKED = PROJECT / ".pytest_cache" / "machines"
"""Unpacked machines, by a hash of the archive and the program: unpacking takes far longer than scanning."""
ABSENT = f"the captured machines are not beside the project ({SNAPSHOTS.name}/ is absent)"


class Snapshot(NamedTuple):
    """A captured machine."""

    name: str
    """As in the expectations: "hwloc/128arm-2pa2n8cluster4co"."""
    archive: Path
    entry: dict[str, Any]
    """Its whole entry in the expectations."""

    @property
    def expected(self) -> dict[str, Any]:
        """The machine's facts, including those that a cgroup hid during the capture."""
        return {**self.entry["expected"], **self.entry.get("expected_ignoring_cgroup", {})}


@functools.cache
def snapshots() -> dict[str, Snapshot]:
    """Return every graded snapshot by name; empty if the data are absent."""
    found: dict[str, Snapshot] = {}
    for file in sorted([*SNAPSHOTS.glob("expected*.json"), *SNAPSHOTS.glob("*/expected*.json")]):
        content = json.loads(file.read_text())
        for name, entry in content.get("snapshots", content).items():
            if isinstance(entry, dict) and "tarball" in entry:
                found[name] = Snapshot(name, SNAPSHOTS / entry["tarball"], entry)
    return {name: found[name] for name in sorted(found)}


@functools.cache
def files_of(name: str) -> Files:
    """Open a snapshot, which is unpacked once for all processes and runs."""
    archive = snapshots()[name].archive
    unpacked = UNPACKED / f"{hashlib.sha256(_program() + archive.read_bytes()).hexdigest()}.pickle"
    if unpacked.is_file():
        return pickle.loads(unpacked.read_bytes())  # noqa: S301 -- written below
    files = open_root(str(archive))
    UNPACKED.mkdir(parents=True, exist_ok=True)
    whole = unpacked.with_suffix(f".{os.getpid()}")
    whole.write_bytes(pickle.dumps(files))
    whole.replace(unpacked)
    return files


@functools.cache
def _program() -> bytes:
    """Return the source of the modules that unpack, which are all in one directory."""
    return b"".join(file.read_bytes() for file in sorted((PROJECT / "agent" / "zonewise" / "machine").glob("*.py")))


@functools.cache
def scan_of(name: str) -> Scan:
    """Scan a snapshot, once for all tests of a process."""
    return Scanner(files_of(name)).scan()
