"""What the kubelet's answers leave open for a while: after its start, and after a pod's admission."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.kubelet.errors import Unsettled
from zonewise.usage.pod_list import incomplete_list_reason, is_listed
from zonewise.usage.policies import not_ready_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.kubelet.types import KubeletReport
    from zonewise.usage.pod_list import PodName

SETTLING_SECONDS = 10.0
"""Seconds. List is complete a second or two after the kubelet's managers run, and in ten they take pods that are gone
out of cpu_manager_state (cpuManagerReconcilePeriod); then it is believed whatever it lacks."""

_ALWAYS = float("-inf")


class KubeletStart:
    """Whether the kubelet has just started, so that its List is not to be believed as long as pods are missing."""

    def __init__(self, clock: Callable[[], float], own_pod: PodName | None) -> None:
        """Begin with a kubelet that has been running; `own` is the pod that we run in, where we know it."""
        self._clock = clock
        self._own = own_pod
        self._own_listed = True
        self._settled = True
        self._end: float | None = None
        """When it is believed in any case; None before its managers run."""

    def note_restart(self) -> None:
        """Take notice of a start, or of what may have been one."""
        self._settled, self._end = False, None

    def check(self, report: KubeletReport) -> None:
        """Raise Unsettled where a report is not to be believed, but for one of managers that do not run yet."""
        if not_ready_reason(report) is not None:
            self.note_restart()
            return
        listed = self._own is None or is_listed(self._own, report.pods)
        if self._own_listed and not listed:
            self.note_restart()
        self._own_listed = listed
        if self._settled:
            return
        self._end = self._clock() + SETTLING_SECONDS if self._end is None else self._end
        reason = incomplete_list_reason(report, self._own)
        if reason is not None and self._clock() < self._end:
            raise Unsettled(reason)
        self._settled = True


class NewPods:
    """Pods that are in the kubelet's files and have no cgroup yet: it follows their admission within milliseconds,
    unless the network is not ready. Pods that were refused look the same, and have a cgroup never.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with pods that have all been there."""
        self._clock = clock
        self._since: dict[str, float] | None = None

    def active_uids(self, active: frozenset[str] | None, recorded: Iterable[str]) -> frozenset[str] | None:
        """Return the UIDs of pods that have a cgroup, and those of the recorded that are new and never had one."""
        now = self._clock()
        before = dict.fromkeys(recorded, _ALWAYS) if self._since is None else self._since
        has = active or frozenset()
        self._since = {uid: _ALWAYS if uid in has else before.get(uid, now) for uid in recorded}
        if active is None:
            return None
        return active.union(uid for uid, since in self._since.items() if now - since < SETTLING_SECONDS)
