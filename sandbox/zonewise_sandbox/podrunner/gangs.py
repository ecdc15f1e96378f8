"""When gangs became complete: a pod that needs its peers begins its work once all of them run.

The annotation `zonewise.dev/simulated-gang-pods` states the number of pods that a pod waits for, as the ranks of an MPI
program do. Until then, the pod does no work but occupies its node. A gang that was complete counts as complete until
its last pod has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.podrunner.types import GANG_PODS, JOB_LABEL

if TYPE_CHECKING:
    from zonewise_sandbox.podrunner.types import RunnerPod

Key = tuple[str, str]


class RunningGangs:
    """Tracks which gangs run. It does no I/O."""

    def __init__(self) -> None:
        """Start without pods."""
        self._running: dict[Key, set[Key]] = {}
        """Running pods by namespace and Job."""
        self._whole_since: dict[Key, float] = {}

    def observe(self, pod: RunnerPod, now: float, *, exists: bool = True) -> list[Key]:
        """Record a pod that changed or no longer exists; return the pods of its gang if the gang becomes complete."""
        gang, size = _gang(pod), pod.seconds(GANG_PODS)
        if size is None:
            return []
        running = self._running.setdefault(gang, set())
        if not exists or pod.status.phase != "Running":
            running.discard(pod.key)
            if not running:
                del self._running[gang]
                self._whole_since.pop(gang, None)
            return []
        running.add(pod.key)
        if len(running) < size or gang in self._whole_since:
            return []
        self._whole_since[gang] = now
        return list(running)

    def waits(self, pod: RunnerPod) -> bool:
        """Return whether a pod waits for other pods of its gang."""
        return pod.seconds(GANG_PODS) is not None and _gang(pod) not in self._whole_since

    def begin(self, pod: RunnerPod, since: float) -> float:
        """Return when the work of a pod began; the pod has run since `since`, and waits for no other pods."""
        return max(since, self._whole_since.get(_gang(pod), since))


def _gang(pod: RunnerPod) -> Key:
    return pod.metadata.namespace, pod.metadata.labels.get(JOB_LABEL, "")
