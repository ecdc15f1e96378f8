"""The scanner: collectors run in order, are timed and cached, and cannot stop each other."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING

import pytest

from support.damage import Recording
from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors import COLLECTORS
from zonewise.machine.discover import Scanner, discover
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.problem import Problem, Source

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.machine.reader import Reader


class Changing(MemoryFiles):
    """Files that a test changes between two scans."""

    def write(self, path: str, content: bytes) -> None:
        self._add(path, content)


def collector(
    name: str,
    collect: Callable[[Reader, Machine], Machine],
    provides: tuple[str, ...],
    needs: tuple[str, ...] = (),
    watched: str = "",
) -> Collector:
    def volatile(peek: Peek) -> bytes | int | None:
        return peek.content(watched) if watched else None

    return Collector(name, provides, needs, collect, volatile)


def hostname(read: Reader, machine: Machine) -> Machine:
    return machine._replace(hostname=read.text("etc/hostname", fact="hostname", rule="a name"))


def product(read: Reader, machine: Machine) -> Machine:
    return machine._replace(product=f"of {machine.hostname}")


NAMES = (
    collector("hostname", hostname, ("hostname",), watched="etc/hostname"),
    collector("product", product, ("product",), ("hostname",)),
)


def outcomes(scanner: Scanner) -> dict[str, str]:
    return {run.collector: run.outcome for run in scanner.scan().runs}


def test_a_collector_sees_the_facts_of_earlier_collectors() -> None:
    """Each collector gets the facts of the collectors before it."""
    machine = Scanner(MemoryFiles([("etc/hostname", b"n1\n")]), collectors=NAMES).scan().machine
    assert (machine.hostname, machine.product) == ("n1", "of n1")


def test_no_change_returns_the_very_same_machine() -> None:
    """A rescan without a change runs no collector and returns the same object, so callers need not compare values."""
    scanner = Scanner(Changing([("etc/hostname", b"n1\n")]), collectors=NAMES)
    first = scanner.scan().machine
    again = scanner.scan()
    assert again.machine is first
    assert {run.outcome for run in again.runs} == {"unchanged"}


def test_a_change_runs_only_dependent_collectors() -> None:
    """A changed file runs its collector, and a changed fact runs the collectors that need it."""
    files = Changing([("etc/hostname", b"n1\n")])
    memory_collector = collector("memory", lambda _, machine: machine._replace(memory=1), ("memory",))
    scanner = Scanner(files, collectors=(*NAMES, memory_collector))
    scanner.scan()
    files.write("etc/hostname", b"n2\n")
    assert outcomes(scanner) == {"hostname": "collected", "product": "collected", "memory": "unchanged"}
    files.write("etc/hostname", b"n2 \n")
    assert outcomes(scanner) == {"hostname": "collected", "product": "unchanged", "memory": "unchanged"}


def test_no_data_is_not_a_failure() -> None:
    """A collector without hardware of its kind reports this and leaves its fields unchanged."""

    def nothing(_: Reader, __: Machine) -> Machine:
        raise NoData("no such hardware")

    scan = Scanner(MemoryFiles([]), collectors=(collector("none", nothing, ("memory",)),)).scan()
    assert [(run.outcome, run.detail) for run in scan.runs] == [("no data", "no such hardware")]
    assert scan.machine == Machine()


def test_an_exception_in_a_collector_loses_only_its_own_facts() -> None:
    """An exception is a problem that names the collector; the others run as usual."""

    def broken(read: Reader, _: Machine) -> Machine:
        read.problem("sys/x", "is damaged")
        raise IndexError("list index out of range")

    scan = Scanner(
        MemoryFiles([("etc/hostname", b"n1\n")]), collectors=(collector("broken", broken, ("pci",)), *NAMES)
    ).scan()
    assert scan.machine.hostname == "n1"
    assert [run.outcome for run in scan.runs] == ["failed", "collected", "collected"]
    assert scan.machine.problems[0] == Problem("/sys/x", "is damaged")
    assert "collector broken failed: IndexError" in scan.machine.problems[1].problem


def test_problems_and_sources_outlive_a_rescan() -> None:
    """The problems of a collector remain if it need not run again."""

    def damaged(read: Reader, machine: Machine) -> Machine:
        read.integer("etc/hostname", needed="the number")
        return machine

    watched = collector("damaged", damaged, ("memory",), watched="etc/hostname")
    scanner = Scanner(MemoryFiles([("etc/hostname", b"n1\n")]), explain=True, collectors=(watched, *NAMES))
    first, second = scanner.scan(), scanner.scan()
    assert first.machine.problems == second.machine.problems != ()
    assert first.sources == second.sources == {"hostname": Source("/etc/hostname", "n1", "a name")}


def test_a_peeked_file_is_not_read_again() -> None:
    """A file that decides whether a collector runs, and that it then reads, is read once per scan."""
    recording = Recording(MemoryFiles([("etc/hostname", b"n1\n")]))
    Scanner(recording, collectors=NAMES).scan()
    assert recording.reads == ["etc/hostname"]


def test_every_collector_is_timed() -> None:
    """Each run has its duration, measured with the given clock."""
    ticks = count(0.0, 0.5)
    scan = Scanner(MemoryFiles([]), collectors=NAMES, clock=lambda: next(ticks)).scan()
    assert [run.seconds for run in scan.runs] == [0.5, 0.5]


def test_peeking_distinguishes_errors_and_never_raises() -> None:
    """A file that appears, disappears or fails differently gives another signature."""
    peek = Peek(MemoryFiles([("a/b", b"1"), ("loop", "loop")]))
    assert len({peek.content("a/b"), peek.content("a"), peek.content("absent"), peek.content("loop")}) == 4
    assert peek.names("a") == ("b",)
    assert peek.names("absent") == ()
    assert peek.link("loop") == "loop"
    assert peek.link("a/b") is None


def test_an_empty_root_is_a_machine_without_facts() -> None:
    """If nothing can be read, nothing is invented, and no collector fails."""
    scan = Scanner(MemoryFiles([("proc", None)])).scan()
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    assert not scan.machine.cpus.online
    assert (scan.machine.zones, scan.machine.pci, scan.machine.memory) == ((), (), None)


@pytest.mark.parametrize("position", range(len(COLLECTORS)), ids=[each.name for each in COLLECTORS])
def test_collectors_follow_the_collectors_they_need(position: int) -> None:
    """Every field that a collector needs is filled by an earlier one, and names are unique."""
    each = COLLECTORS[position]
    provided = {field for before in COLLECTORS[:position] for field in before.provides}
    assert set(each.needs) <= provided
    assert set(each.provides) | set(each.needs) <= set(Machine._fields)
    assert each.name not in {before.name for before in COLLECTORS[:position]}


def test_every_field_has_a_collector() -> None:
    """Every fact of a machine has a collector."""
    provided = {field for each in COLLECTORS for field in each.provides}
    assert provided == set(Machine._fields) - {"problems"}


def test_discovery_never_raises() -> None:
    """`discover` accepts anything that can be read like files."""
    assert discover(MemoryFiles([("sys/devices/system/cpu/online", b"\xff\xfe")])).problems
