"""The agent's state, shared with probes, metrics and /debug/state."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise.machine.model.machine import Machine
from zonewise.objects.features import Features

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.health.types import Fault
    from zonewise.kubelet.types import KubeletConfig
    from zonewise.machine.discover import Run
    from zonewise.rules.types import Evaluation
    from zonewise.usage.types import Usage


class Snapshot(NamedTuple):
    """The result of the last scan, as an immutable value: other threads may read it during the next scan."""

    node_name: str
    machine: Machine = Machine()
    runs: tuple[Run, ...] = ()
    usage: Usage | None = None
    """Usage of the node; None if the kubelet has not reported yet."""
    config: KubeletConfig | None = None
    problems: tuple[str, ...] = ()
    """Current problems with the kubelet's responses and with labels; each is a sentence."""
    nrt: dict[str, Any] | None = None
    """The NodeResourceTopology; None as long as there is none to publish."""
    labels: dict[str, str] | None = None
    features: Features = Features({}, {}, {})
    """Raw features for Node Feature Discovery's rules, in addition to the labels."""
    rules: Evaluation | None = None
    """Outputs of the rules that are evaluated on this node; None if none are evaluated or they are unknown."""
    faults: tuple[Fault, ...] | None = None
    """Active faults of the hardware; None if health is off."""
    fault_counts: dict[tuple[str, str, str], int] = {}  # noqa: RUF012 -- never written to
    """Faults raised and events repeated since the start, by device, rule and verdict."""


class Status:
    """State shared between threads. Times are in seconds of the given clock."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._snapshot = Snapshot("")
        self._published_at: dict[str, float | None] = {}
        self._beat = clock()

    @property
    def snapshot(self) -> Snapshot:
        """Return the result of the last scan."""
        return self._snapshot

    def set_snapshot(self, snapshot: Snapshot) -> None:
        """Store the result of a scan."""
        self._snapshot = snapshot

    def beat(self) -> None:
        """Note a heartbeat of the loop."""
        with self._lock:
            self._beat = self._clock()

    def expect(self, objects: Iterable[str]) -> None:
        """Set the names of the objects to publish; the publishing times of these objects are preserved."""
        with self._lock:
            self._published_at = {name: self._published_at.get(name) for name in objects}

    def published(self, name: str, age: float = 0.0) -> None:
        """Note that one object is published and was seen to match the node `age` seconds ago."""
        with self._lock:
            if name in self._published_at:
                self._published_at[name] = self._clock() - age

    def silence(self) -> float:
        """Return the seconds since the last heartbeat of the loop."""
        with self._lock:
            return self._clock() - self._beat

    def age(self) -> float | None:
        """Return the seconds since all published objects were last known to match the node; None before the first time.

        Returns 0 if there is nothing to publish.
        """
        with self._lock:
            times = list(self._published_at.values())
            if not times:
                return 0.0
            known = [time for time in times if time is not None]
            return self._clock() - min(known) if len(known) == len(times) else None
