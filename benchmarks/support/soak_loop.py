"""The loop of a soak: changes, faults of one part at a time, probes, logs and resources, whatever system is soaked."""

from __future__ import annotations

import http.client
import sys
import time
from typing import TYPE_CHECKING, NamedTuple, Protocol

import urllib3

from benchmarks.support.soak_resources import Growth, ResourceLog
from benchmarks.support.targets import Row

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Mapping, Set

    from benchmarks.support.soak_cluster import Part

PERIOD = 1.0
"""Seconds between two changes."""
SAMPLE_PERIOD = 0.5
FAULT_SECONDS = (2.0, 10.0)
GRACE = 10.0
"""Seconds after a fault that do not count as calm, while programs reconnect."""
CALM = 15.0
"""Seconds from the end of the grace after one fault to the next fault."""
WARM_UP = 60.0
"""Seconds at the start of a program's life that do not count for its growth."""
_REPORT_PERIOD = 60.0
_PROBE_TIMEOUT = 2.0


class FaultCounts(NamedTuple):
    """The counts of every soak so far."""

    faults: int = 0
    probes: int = 0
    unanswered: tuple[str, ...] = ()
    """A program's name and the error of the probe."""
    tracebacks: tuple[str, ...] = ()
    """A program's name and its log from the traceback on."""


class SoakedSystem(Protocol):
    """What a soak changes and audits."""

    @property
    def parts(self) -> Mapping[str, Part]:
        """The parts that may fail, by name."""
        ...

    @property
    def servers(self) -> Set[str]:
        """The names of the parts without which nothing can be changed or audited."""
        ...

    def change(self) -> None:
        """Make one change, as users do."""
        ...

    def audit(self, *, calm: bool) -> None:
        """Compare the system with what it should be; `calm`: all parts have been up for a while."""
        ...

    def interrupted(self) -> None:
        """Forget for how long something has been observed, since the last change or audit failed."""
        ...

    def wait_until_served(self) -> None:
        """Wait until the servers respond again."""
        ...

    def probe_port(self, name: str) -> int | None:
        """Return the health port of one of our programs; None before it serves, and for other parts."""
        ...

    def role(self, name: str) -> str:
        """Return the role of one of our programs now, such as " as leader"; its resources are compared within a role.

        "": it has only one role.
        """
        ...

    def summary(self) -> str:
        """Return the system's own counts in one line."""
        ...


class SoakLoop:
    """Runs a soak."""

    def __init__(self, system: SoakedSystem, chance: random.Random) -> None:
        self._system = system
        self._chance = chance
        self._faulty: set[str] = set()
        self._calm_from = time.monotonic()
        self.counts = FaultCounts()
        self.resources = ResourceLog()

    def run(self, seconds: float) -> None:
        """Run until the time is over, with a fault after each calm phase; then read the logs."""
        end = time.monotonic() + seconds
        report = time.monotonic() + _REPORT_PERIOD
        while time.monotonic() < end:
            self.run_until(time.monotonic() + CALM)
            self._fault()
            self._calm_from = time.monotonic() + GRACE
            self.run_until(self._calm_from)
            if time.monotonic() >= report:
                report += _REPORT_PERIOD
                print(f"{end - time.monotonic():5.0f} s left: {self._summary()}", file=sys.stderr, flush=True)
        for part in self._system.parts.values():
            self._read_log(part)

    def run_until(self, end: float) -> None:
        """Change, audit, probe and sample until this time of the monotonic clock."""
        due = time.monotonic()
        while (now := time.monotonic()) < end:
            if now >= due:
                due = now + PERIOD
                self._when_served(self._system.change)
            self._when_served(self._audit)
            self._probe()
            self._sample_resources()
            time.sleep(max(0.0, min(due, end, now + SAMPLE_PERIOD) - time.monotonic()))

    def _audit(self) -> None:
        self._system.audit(calm=not self._faulty and time.monotonic() >= self._calm_from)

    def _when_served(self, call: Callable[[], None]) -> None:
        """Call a function that needs the servers, which may be down or silent."""
        if self._faulty & self._system.servers:
            return
        try:
            call()
        except (urllib3.exceptions.HTTPError, AssertionError):  # a server may have returned only a moment ago
            self._system.interrupted()

    def _fault(self) -> None:
        part = self._system.parts[self._chance.choice(sorted(self._system.parts))]
        seconds = self._chance.uniform(*FAULT_SECONDS)
        pauses = self._chance.random() < 0.5
        self._faulty.add(part.name)
        if pauses:
            part.pause()
        else:
            self._read_log(part)
            part.kill()
        self.run_until(time.monotonic() + seconds)
        if pauses:
            part.resume()
        else:
            part.start()
        if part.name in self._system.servers:
            self._system.wait_until_served()
        self._faulty.remove(part.name)
        self.counts = self.counts._replace(faults=self.counts.faults + 1)

    def _read_log(self, part: Part) -> None:
        """Read the log of one of our programs since its start."""
        _, marker, traceback = (part.said() if part.said is not None else "").partition("Traceback")
        if marker:
            text = f"{part.name}: {marker}{traceback[:2000]}"
            self.counts = self.counts._replace(tracebacks=(*self.counts.tracebacks, text))

    def _probe(self) -> None:
        for name in self._system.parts:
            port = None if name in self._faulty else self._system.probe_port(name)
            if port is None:
                continue
            self.counts = self.counts._replace(probes=self.counts.probes + 1)
            try:
                get(port, "/healthz")
            except OSError as error:
                text = f"{name}: {error.__class__.__name__} {error}"
                self.counts = self.counts._replace(unanswered=(*self.counts.unanswered, text))

    def _sample_resources(self) -> None:
        now = time.monotonic()
        for name, part in self._system.parts.items():
            if part.said is not None:
                self.resources.sample(f"{name}{self._system.role(name)}", part.pid(), now)

    def _summary(self) -> str:
        counts = self.counts
        unanswered = f"{len(counts.unanswered)} of {counts.probes} probes unanswered"
        return f"{self._system.summary()}, {counts.faults} faults, {unanswered}"

    def rows(self) -> list[Row]:
        """Return the rows that all soaks have."""
        counts = self.counts
        rows = [
            Row("faults", str(counts.faults)),
            Row("probes unanswered", f"{len(counts.unanswered)} of {counts.probes}", "0", not counts.unanswered),
            Row("programs with a traceback in their log", str(len(counts.tracebacks)), "0", not counts.tracebacks),
        ]
        return rows + [_growth_row(name, growth) for name, growth in self.resources.growth(WARM_UP).items()]


def _growth_row(name: str, growth: Growth) -> Row:
    measured = f"{growth.resident / 2**20:+.1f} MiB, {growth.threads:+d}, {growth.descriptors:+d}"
    flat = growth.resident <= 2 << 20 and growth.threads <= 2 and growth.descriptors <= 5
    return Row(f"{name}: growth in {growth.seconds:.0f} s: memory, threads, descriptors", measured, "flat", flat)


def get(port: int, path: str) -> str:
    """Return the body of a response of any status; raise OSError if there is none."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_TIMEOUT)
    try:
        connection.request("GET", path)
        return connection.getresponse().read().decode()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
