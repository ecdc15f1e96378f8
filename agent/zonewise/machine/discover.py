"""Discovery: runs the collectors in order, times each, and lets no damage or defect in one stop the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collector import Collector, NoData, Peek
from zonewise.machine.collectors import COLLECTORS
from zonewise.machine.model.machine import Machine
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from zonewise.machine.files import Files
    from zonewise.machine.model.problem import Problem, Source


class Run(NamedTuple):
    """The outcome of one collector in one scan."""

    collector: str
    seconds: float
    outcome: str
    """"collected", "unchanged" since the last scan, "no data", or "failed" because of a defect of ours."""
    detail: str = ""


class Scan(NamedTuple):
    """The result of one scan."""

    machine: Machine
    runs: tuple[Run, ...]
    sources: dict[str, Source]
    """The source of each fact, by its path; empty unless sources are recorded."""


class _CollectorResult(NamedTuple):
    """The result of a collector at the last scan."""

    signature: Hashable
    inputs: tuple[object, ...]
    outputs: tuple[object, ...]
    problems: tuple[Problem, ...]
    sources: dict[str, Source]
    run: Run


class Scanner:
    """Scans one machine repeatedly; a collector with unchanged volatile files is not run again."""

    def __init__(
        self,
        files: Files,
        *,
        explain: bool = False,
        collectors: tuple[Collector, ...] = COLLECTORS,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._files = files
        self._explain = explain
        self._collectors = collectors
        self._clock = clock
        self._parts: dict[str, _CollectorResult] = {}
        self._last: Machine | None = None

    def scan(self) -> Scan:
        """Return the current machine; the same Machine object if nothing changed since the last scan."""
        machine = Machine()
        runs: list[Run] = []
        peek = Peek(self._files)
        for collector in self._collectors:
            part = self._scan_part(collector, machine, peek)
            self._parts[collector.name] = part
            machine = machine._replace(**dict(zip(collector.provides, part.outputs, strict=True)))
            runs.append(part.run)
        parts = self._parts.values()
        machine = machine._replace(problems=tuple(problem for part in parts for problem in part.problems))
        if self._last is not None and self._last == machine:
            machine = self._last
        self._last = machine
        sources = {fact: source for part in parts for fact, source in part.sources.items()}
        return Scan(machine, tuple(runs), sources)

    def _scan_part(self, collector: Collector, machine: Machine, peek: Peek) -> _CollectorResult:
        started = self._clock()
        before = self._parts.get(collector.name)
        needed = tuple(getattr(machine, field) for field in collector.needs)
        signature = collector.volatile(peek)
        if before is not None and before.signature == signature and before.inputs == needed:
            return before._replace(run=Run(collector.name, self._clock() - started, "unchanged"))
        read = Reader(self._files, explain=self._explain, known=peek.contents)
        discovered, outcome, detail = _collect(collector, read, machine)
        values = tuple(getattr(discovered, field) for field in collector.provides)
        run = Run(collector.name, self._clock() - started, outcome, detail)
        return _CollectorResult(signature, needed, values, tuple(read.problems), read.sources or {}, run)


def _collect(collector: Collector, read: Reader, machine: Machine) -> tuple[Machine, str, str]:
    try:
        return collector.collect(read, machine), "collected", ""
    except NoData as nothing:
        return machine, "no data", str(nothing)
    except Exception as error:  # noqa: BLE001 -- the top of the loop: a defect in one collector must not cost the others
        detail = f"{type(error).__name__}: {error}"
        read.problem("", f"collector {collector.name} failed: {detail}", "its facts are unknown")
        return machine, "failed", detail


def discover(files: Files) -> Machine:
    """Return the machine that the files describe. Never raises: damage is reported in its problems."""
    return Scanner(files).scan().machine
