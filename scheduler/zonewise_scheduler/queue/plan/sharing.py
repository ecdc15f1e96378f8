"""What LocalQueues have used lately, kept up to date: admission fair sharing (KEP-4136, quota.order.usage).

It is sampled at regular times, of all LocalQueues of queues where admission follows usage at once.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.quota.order.usage import Used, enter, sample, usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from zonewise_scheduler.queue.plan.entrance import Entrance
    from zonewise_scheduler.queue.quota.model.workload import Decay, Workload
    from zonewise_scheduler.queue.quota.tree.snapshot import Snapshot

_MILLI = 1000


class Sharing:
    """The usage of LocalQueues, by their keys."""

    def __init__(self, decay: Decay) -> None:
        self._decay = decay
        self._used: dict[str, Used] = {}
        self._at = inf
        """Of the last sample; infinite: there was none."""
        self._quiet = False

    def copy(self) -> Sharing:
        """Return another that changes on its own, and is sampled only when something is to be decided."""
        other = Sharing(self._decay)
        other._used, other._at, other._quiet = dict(self._used), self._at, True
        return other

    @property
    def used(self) -> Mapping[str, Used]:
        """What each of them has used."""
        return self._used

    @property
    def wake(self) -> float:
        """When it is to be sampled next, seconds; infinite where nobody is to be woken for that."""
        return inf if self._quiet else self._at + self._decay.sampling

    def restore(self, used: Mapping[str, Used]) -> None:
        """Take in what was used before a restart."""
        self._used = dict(used)
        self._at = max((one.at for one in used.values()), default=inf)

    def sample(self, now: float, snapshot: Snapshot) -> bool:
        """Take a sample of what runs if it is time; tell whether it was."""
        if self._at == inf:
            self._at = now
        if now < self._at + self._decay.sampling:
            return False
        sums: dict[str, dict[str, float]] = {}
        for one in _running(snapshot):
            own = sums.setdefault(one.local_queue, {})
            for key, amount in one.usage.items():
                own[key.resource] = own.get(key.resource, 0.0) + _in_units(key.resource, amount)
        for key in self._used.keys() | sums.keys():
            self._used[key] = sample(self._of(key), sums.get(key, {}), now, self._decay)
        self._at = now
        return True

    def enter(self, workload: Workload) -> None:
        """Count one that is admitted now."""
        requests: dict[str, float] = {}
        for one in workload.totals:
            for name, amount in one.requests.items():
                requests[name] = requests.get(name, 0.0) + _in_units(name, amount)
        self._used[workload.local_queue] = enter(self._of(workload.local_queue), requests, self._decay)

    def show(self, snapshot: Snapshot, entrance: Entrance, keys: Iterable[str] | None = None) -> None:
        """Have decisions made by the usage as it is; `keys`: of these LocalQueues, None: of all."""
        for key in self._used if keys is None else keys:
            snapshot.usage_of_local_queues[key] = usage(self._used[key], entrance.weight(key), self._decay)

    def _of(self, key: str) -> Used:
        return self._used.get(key) or Used({}, self._at, {})


def _running(snapshot: Snapshot) -> Iterator[Workload]:
    for name, node in snapshot.queues.items():
        if node.spec.by_usage:
            yield from snapshot.running[name].values()


def _in_units(resource: str, amount: int) -> float:
    """Return an amount in its unit: CPUs are counted in thousandths."""
    return amount / _MILLI if resource == "cpu" else float(amount)
