"""The state of health beyond one observation, and its file format."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from zonewise.health.counters import MAX_COUNTERS, Counter
from zonewise.health.holders import Holder, Holders  # noqa: TC001 -- msgspec reads the types
from zonewise.health.types import Baseline, DeviceId, Fault, LinkReading

VERSION = 1
MAX_FAULTS = 256
MAX_HITS = 256
MAX_STATE_BYTES = 2 << 20
_MAX_TIME = 2.0**35
"""Seconds from the epoch to a time of a fault, in either direction: more may not be a date (datetime)."""


class ApplicationHit(NamedTuple):
    """An XID caused by a program on a GPU, and the workload that held the GPU."""

    device: DeviceId
    code: int
    workload: str
    at: float


class HealthState(NamedTuple):
    """The state after an observation."""

    boot_id: str = ""
    time: float = 0.0
    """Time of the last observation."""
    baseline: Baseline | None = None
    """The learned baseline; None if not learned yet."""
    counters: dict[str, Counter] = {}  # noqa: RUF012 -- never written to
    faults: tuple[Fault, ...] = ()
    """Active faults, and conditions that have not been present for long enough."""
    holders: Holders = {}  # noqa: RUF012 -- as above
    hits: tuple[ApplicationHit, ...] = ()
    sequence: int | None = None
    """The last record of this boot's kernel log that was interpreted."""
    machine_id: str = ""
    """The machine that was observed, see HardwareObservation; empty if unknown."""

    @property
    def active(self) -> tuple[Fault, ...]:
        """Return the active faults."""
        return tuple(fault for fault in self.faults if fault.active)

    def sequence_of(self, boot_id: str) -> int | None:
        """Return the last interpreted record of a boot; None for another or an unknown boot."""
        return self.sequence if boot_id and boot_id == self.boot_id else None


class StateError(ValueError):
    """A file has unexpected content; the message names the field."""


class _StateFile(msgspec.Struct):
    """The content of the file. NamedTuples are stored as arrays."""

    version: int
    boot_id: str
    time: float
    baseline: Baseline | None
    counters: dict[str, Counter]
    faults: list[Fault]
    holders: list[tuple[DeviceId, list[Holder]]]
    hits: list[ApplicationHit]
    sequence: int | None
    machine_id: str = ""


def encode_state(state: HealthState) -> bytes:
    """Return the content of the file."""
    holders = [(device, list(known)) for device, known in state.holders.items()]
    return msgspec.json.encode(
        _StateFile(
            VERSION,
            state.boot_id,
            state.time,
            state.baseline,
            state.counters,
            list(state.faults),
            holders,
            list(state.hits),
            state.sequence,
            state.machine_id,
        )
    )


def decode_state(content: bytes) -> HealthState:
    """Return the state in a file. Raises StateError, also for a file of another version."""
    try:
        file = msgspec.json.decode(content, type=_StateFile)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StateError(str(error)) from error
    if file.version != VERSION:
        raise StateError(f"version {file.version}, but only {VERSION} is supported")
    if len(file.faults) > MAX_FAULTS or len(file.counters) > MAX_COUNTERS or len(file.hits) > MAX_HITS:
        raise StateError("it contains more faults or counters than the agent writes")
    if any(abs(time) > _MAX_TIME for fault in file.faults for time in (fault.first, fault.last)):
        raise StateError("faults: a time is not a date")
    holders = {device: tuple(known) for device, known in file.holders}
    return HealthState(
        file.boot_id,
        file.time,
        file.baseline,
        file.counters,
        tuple(file.faults),
        holders,
        tuple(file.hits),
        file.sequence,
        file.machine_id,
    )


# --- baselines in a separate file, which people write


class _LinkFile(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    speed: float | None = None
    width: int | None = None


class _BaselineFile(msgspec.Struct, forbid_unknown_fields=True):
    gpus: list[str] = []
    nics: list[str] = []
    links: dict[str, _LinkFile] = {}
    rates: dict[str, float] = {}
    nvlinks: dict[str, int] = {}
    cpus: int | None = None
    memory: int | None = None


def encode_baseline(baseline: Baseline) -> bytes:
    """Return a baseline as human-readable JSON: links with `speed` (GT/s) and `width`, rates in Gb/s."""
    links = {address: _LinkFile(link.speed_gts, link.width) for address, link in sorted(baseline.links.items())}
    file = _BaselineFile(
        sorted(baseline.gpus),
        sorted(baseline.nics),
        links,
        dict(sorted(baseline.rates.items())),
        dict(sorted(baseline.nvlinks.items())),
        baseline.cpus,
        baseline.memory,
    )
    return msgspec.json.format(msgspec.json.encode(file), indent=2) + b"\n"


def decode_baseline(content: bytes) -> Baseline:
    """Return the baseline in a file. Raises StateError, which names the field."""
    try:
        file = msgspec.json.decode(content, type=_BaselineFile)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise StateError(str(error)) from error
    links = {address: LinkReading(link.speed, link.width) for address, link in file.links.items()}
    return Baseline(frozenset(file.gpus), frozenset(file.nics), links, file.rates, file.cpus, file.memory, file.nvlinks)
