"""Asks the kubelet what there is to know at one moment, and no more often than it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.events import Reason
from zonewise.kubelet.errors import KubeletError
from zonewise.kubelet.model import Allocatable, KubeletReport

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from zonewise.daemon.metrics.meters import Meters
    from zonewise.kubelet.config_source import ConfigSource
    from zonewise.kubelet.podresources.client import PodResourcesClient
    from zonewise.kubelet.state import StateReader

    T = TypeVar("T")

PODS_ONLY = frozenset({Reason.STATE, Reason.PODS})
"""Reasons that say pods came or went and nothing else: what the kubelet could give at all is then as before, and
asking for it too would double the calls at each pod start, and the kubelet takes 100 a second from all clients."""


class Answer(NamedTuple):
    """What the kubelet told, and what was odd about it."""

    report: KubeletReport
    problems: tuple[str, ...]


class Kubelet:
    """The kubelet of this node."""

    def __init__(self, client: PodResourcesClient, state: StateReader, config: ConfigSource, meters: Meters) -> None:
        self._client = client
        self._state = state
        self._config = config
        self._meters = meters
        self._allocatable: Allocatable | None = None

    def ask(self, reasons: frozenset[Reason]) -> Answer:
        """Return what there is to know. Raises KubeletError where the kubelet does not tell who holds what."""
        if self._allocatable is None or not reasons <= PODS_ONLY:
            self._allocatable = self._counted("GetAllocatableResources", self._client.allocatable)
        # the list before the files: what the kubelet gives in between is then missing from the list only, and the
        # accounting takes a CPU for free only where both say so
        pods = self._counted("List", self._client.list)
        state, state_problems = self._state.read()
        reading = self._config.read(refresh=not reasons <= PODS_ONLY)
        problems = [*self._client.problems, *state_problems]
        if reading.problem is not None:
            problems.append(reading.problem)
        return Answer(KubeletReport(pods, self._allocatable, reading.config, state), tuple(problems))

    def close(self) -> None:
        """End calls under way."""
        self._client.close()

    def _counted(self, method: str, call: Callable[[], T]) -> T:
        self._meters.kubelet_requests.labels(method).inc()
        try:
            return call()
        except KubeletError as error:
            self._meters.kubelet_errors.labels(method, type(error).__name__).inc()
            raise
