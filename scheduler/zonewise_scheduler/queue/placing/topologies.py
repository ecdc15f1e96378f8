"""Places in the topologies of all flavors, and what runs there.

pkg/cache/scheduler/clusterqueue_snapshot.go FindTopologyAssignmentsForWorkload, tas_flavor_snapshot.go Fits. Flavors
may have nodes in common (TASHandleOverlappingFlavors): where leaves are nodes, what one flavor's pods take is taken
from all. Kueue takes it from the others only with the next cycle; here it is at once, so that no node is given twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.queue.placing.pods import as_placed, gained, places_of
from zonewise_scheduler.queue.quota.places import NoPlace
from zonewise_scheduler.queue.topology.model import Options
from zonewise_scheduler.queue.topology.place import place
from zonewise_scheduler.queue.topology.refusal import Refused
from zonewise_scheduler.queue.topology.replace import replace
from zonewise_scheduler.queue.topology.shape import has_levels
from zonewise_scheduler.queue.topology.usage import added, with_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from zonewise_scheduler.queue.placing.ground import Ground
    from zonewise_scheduler.queue.placing.pods import Spot
    from zonewise_scheduler.queue.quota.model.workload import TopologyRequest, Workload
    from zonewise_scheduler.queue.quota.places import Found, Wish
    from zonewise_scheduler.queue.topology.model import Assignment
    from zonewise_scheduler.queue.topology.usage import Usage

_DEFAULTS = Options()

_Books = dict[str, "Usage"]
"""By flavor; absent: nothing."""


class Topologies:
    """Implements quota's Places."""

    def __init__(self, grounds: Iterable[Ground], options: Options = _DEFAULTS) -> None:
        self._grounds = {one.flavor.name: one for one in grounds}
        self._options = options
        self._used: _Books = {}

    def has(self, flavor: str) -> bool:
        """Tell whether the flavor has a topology that is known."""
        return flavor in self._grounds

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Tell whether its topology has the levels that are asked for."""
        return has_levels(self._grounds[flavor].tree.keys, request.request)

    def find(self, workload: Workload, wishes: Mapping[str, Sequence[Wish]], *, empty: bool) -> Found | NoPlace:
        """Find places for the wishes, by flavor; `empty`: as if nothing ran."""
        used: _Books = {} if empty else self._used
        found: Found = {}
        for flavor in sorted(wishes):
            placed = self._place(workload, wishes[flavor], flavor, used)
            if isinstance(placed, NoPlace):
                return placed
            found |= placed
            used = self._with(used, gained(workload, wishes[flavor], placed, self.has))
        return found

    def broken(self, workload: Workload) -> Set[str]:
        """Return the names of the pod sets that have pods on failed nodes."""
        failed = set(workload.failed_nodes)
        if not failed:
            return failed
        return {
            one.pod_set
            for one in places_of(workload, self.has)
            if any(at.values[-1] in failed for at in one.at.domains)
        }

    def fits(self, workload: Workload, held: Workload | None = None) -> bool:
        """Tell whether there is room at the places of a workload's admission, beyond those that it held before."""
        more = places_of(workload, self.has, held)
        if any(self._grounds[one.flavor].tree.stale(one.at) for one in more):
            return False
        books = self._with({}, more)
        for flavor, usage in books.items():
            supply = self._grounds[flavor].supply(self._used.get(flavor, {}))
            for resource, amount in usage.items():
                if (amount > supply.free(resource))[amount > 0].any():
                    return False
        return True

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that a workload has the places of its admission, beyond those that it held before."""
        self._used = self._with(self._used, places_of(workload, self.has, held))

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that it has them no more."""
        self._used = self._with(self._used, places_of(workload, self.has, held), sign=-1)

    def _place(
        self, workload: Workload, wishes: Sequence[Wish], flavor: str, used: _Books
    ) -> dict[str, Assignment] | NoPlace:
        """Find places in one flavor; for pods of a failed node beside those that stay."""
        supply = self._grounds[flavor].supply(used.get(flavor, {}))
        pod_sets = [as_placed(wish) for wish in wishes]
        failed = workload.failed_nodes if self.broken(workload) else ()
        if len(failed) > 1:
            return NoPlace(pod_sets[0].name, flavor, f"several nodes failed at once: {', '.join(failed)}")
        try:
            if failed:
                held = {one.pod_set: one.at for one in places_of(workload, self.has)}
                found = replace(supply, pod_sets, held, failed[0], self._options)
            else:
                found = place(supply, pod_sets, self._options)
        except ValueError as error:  # a workload that no API server would have taken
            return NoPlace(pod_sets[0].name, flavor, str(error))
        if isinstance(found, Refused):
            return NoPlace(found.pod_set, flavor, str(found))
        return found.assignments

    def _with(self, used: _Books, spots: Iterable[Spot], sign: int = 1) -> _Books:
        """Return the books with pods, or without them, in all flavors that have their nodes."""
        books = dict(used)
        for one in spots:
            for name, ground in self._grounds.items():
                tree = ground.tree
                if name == one.flavor or (tree.has_nodes and self._grounds[one.flavor].tree.has_nodes):
                    taken = with_pods(tree, {}, one.at, one.requests)
                    books[name] = added(books.get(name, {}), {key: sign * amount for key, amount in taken.items()})
        return books
