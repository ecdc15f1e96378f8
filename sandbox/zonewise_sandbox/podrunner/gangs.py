"""Since when gangs run whole: the work of a pod that needs its peers begins once all of them run.

A pod whose annotation `zonewise.dev/simulated-gang-pods` says how many pods its Job has waits for them, as the ranks of
an MPI program do. It does no work before, and holds its node. A gang that was whole counts as whole until its last pod
has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_sandbox.podrunner.types import GANG_PODS, JOB_LABEL

if TYPE_CHECKING:
    from zonewise_sandbox.podrunner.types import RunnerPod

Key = tuple[str, str]


class RunningGangs:
    """See the module. It does no I/O."""

    def __init__(self) -> None:
        """Start without pods."""
        self._running: dict[Key, set[Key]] = {}
        """Pods by namespace and Job."""
        self._whole_since: dict[Key, float] = {}

    def observe(self, pod: RunnerPod, now: float, *, exists: bool = True) -> list[Key]:
        """Take a pod that has changed, or exists no more; return the pods of its gang if it is whole from now on."""
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
        """Tell whether a pod waits for others of its gang."""
        return pod.seconds(GANG_PODS) is not None and _gang(pod) not in self._whole_since

    def begin(self, pod: RunnerPod, since: float) -> float:
        """Return when the work of a pod began that runs since then, and waits for none."""
        return max(since, self._whole_since.get(_gang(pod), since))


def _gang(pod: RunnerPod) -> Key:
    return pod.metadata.namespace, pod.metadata.labels.get(JOB_LABEL, "")
