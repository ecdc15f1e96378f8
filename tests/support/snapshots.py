"""The captured machines beside the project, and what hwloc and lscpu say of them; all of it data by path."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.machine.archive import open_root
from zonewise.machine.discover import Scan, Scanner

if TYPE_CHECKING:
    from zonewise.machine.files import Files

PROJECT = Path(__file__).resolve().parents[2]
SNAPSHOTS = PROJECT.parent / "shared" / "snapshots"
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
        """What the machine has, whatever a cgroup of the capture allowed."""
        return {**self.entry["expected"], **self.entry.get("expected_ignoring_cgroup", {})}


@functools.cache
def snapshots() -> dict[str, Snapshot]:
    """Every graded snapshot by name; empty where the data are absent."""
    found: dict[str, Snapshot] = {}
    for file in sorted([*SNAPSHOTS.glob("expected*.json"), *SNAPSHOTS.glob("*/expected*.json")]):
        content = json.loads(file.read_text())
        for name, entry in content.get("snapshots", content).items():
            if isinstance(entry, dict) and "tarball" in entry:
                found[name] = Snapshot(name, SNAPSHOTS / entry["tarball"], entry)
    return {name: found[name] for name in sorted(found)}


def files_of(name: str) -> Files:
    """Open one snapshot."""
    return open_root(str(snapshots()[name].archive))


@functools.cache
def scan_of(name: str) -> Scan:
    """Scan one snapshot, once for all tests of a process."""
    return Scanner(files_of(name)).scan()
