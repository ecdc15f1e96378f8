"""Discovery: CPU time of a first scan and of a rescan, the whole command compared with lstopo, and resident memory.

Run by `make bench`. Machines are noisy, so each figure is the median of several runs, interleaved with those of the
peer.
"""

from __future__ import annotations

import compileall
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.support.targets import Row, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROJECT = Path(__file__).resolve().parents[1]
SNAPSHOTS = PROJECT.parent / "shared" / "snapshots" / "hwloc"
ARM_128 = "128arm-2pa2n8cluster4co"
CPUS_256 = "256ppc-8n8s4t"
RUNS = 11

SCAN = """
import sys, time
from zonewise.machine.archive import open_root
from zonewise.machine.discover import Scanner
scanner = Scanner(open_root(sys.argv[1]))
for _ in range(2):
    started = time.process_time()
    scanner.scan()
    print((time.process_time() - started) * 1000)
"""
MEMORY = """
import sys
from zonewise.machine.archive import open_root
from zonewise.machine.discover import Scanner
machine = Scanner(open_root(sys.argv[1])).scan().machine
pages = int(open("/proc/self/statm").read().split()[1])
heavy = [name for name in ("numpy", "pydantic", "kubernetes", "pynvml") if name in sys.modules]
print(pages * 4096 / (1 << 20), len(machine.cpus.online), ",".join(heavy) or "none")
"""


def main() -> int:
    """Run all measurements and print the table; return 1 if a target is missed."""
    compileall.compile_dir(PROJECT / "agent", quiet=1)  # as in the installed service
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as directory:
        for measure in (_arm, _memory):
            if SNAPSHOTS.is_dir():
                rows += measure(Path(directory))
        rows += _live()
    if not SNAPSHOTS.is_dir():
        print("the captured machines are not beside the project: only the live machine was measured")
    return show(rows)


def _arm(directory: Path) -> Iterator[Row]:
    root = _unpack(ARM_128, directory)
    first, again = _scan_times(root)
    yield Row("128-CPU ARM tree, first scan, CPU", f"{first:.1f} ms", "<= 60 ms", first <= 60)
    yield Row("128-CPU ARM tree, rescan, CPU", f"{again:.2f} ms", "<= 5 ms", again <= 5)
    if shutil.which("lstopo"):
        yield from _against_lstopo(root)


def _against_lstopo(root: Path) -> Iterator[Row]:
    environment = {**os.environ, "HWLOC_FSROOT": str(root), "HWLOC_THISSYSTEM": "0"}
    peer = _runner(["lstopo", "--of", "xml"], environment)
    ours = _runner([sys.executable, "-m", "zonewise", "show", "-o", "json", "--root", str(root)], dict(os.environ))
    bare = _runner([sys.executable, "-c", "pass"], dict(os.environ))
    times = [(peer(), ours(), bare()) for _ in range(RUNS + 1)][1:]  # the first run fills the system's caches
    lstopo, show, python = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = statistics.median(row[1] / row[0] for row in times)
    yield Row(
        "... show -o json / lstopo --of xml, wall", f"{show:.0f} / {lstopo:.0f} ms = {ratio:.1f}", "<= 5", ratio <= 5
    )
    yield Row("... of which the start of Python", f"{python:.0f} ms", "", True)


def _memory(directory: Path) -> Iterator[Row]:
    root = _unpack(CPUS_256, directory)
    for kind, place in (("from a directory", root), ("from an archive", SNAPSHOTS / f"{CPUS_256}.tar.bz2")):
        mib, cpus, heavy = _python(MEMORY, str(place)).split()
        is_met = float(mib) <= 25 and heavy == "none"
        yield Row(f"{cpus}-CPU machine, {kind}, resident", f"{float(mib):.1f} MiB", "<= 25 MiB", is_met)


def _live() -> Iterator[Row]:
    first, again = _scan_times(Path("/"))
    yield Row("this machine, first scan, CPU", f"{first:.1f} ms", "", True)
    yield Row("this machine, rescan, CPU", f"{again:.2f} ms", "<= 1 ms", again <= 1)


def _scan_times(root: Path) -> tuple[float, float]:
    """Return the median CPU milliseconds of a first scan and of a rescan, each in a fresh process."""
    runs = [[float(number) for number in _python(SCAN, str(root)).split()] for _ in range(RUNS)]
    return statistics.median(run[0] for run in runs), statistics.median(run[1] for run in runs)


def _python(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _runner(command: list[str], environment: dict[str, str]) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return (time.perf_counter() - started) * 1000

    return run


def _unpack(name: str, directory: Path) -> Path:
    with tarfile.open(SNAPSHOTS / f"{name}.tar.bz2") as tar:
        tar.extractall(directory, filter="fully_trusted")  # noqa: S202 -- our own data
    return directory / name


if __name__ == "__main__":
    sys.exit(main())
