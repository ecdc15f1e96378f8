"""Places in the topologies of all flavors, and what runs there.

pkg/cache/scheduler/clusterqueue_snapshot.go FindTopologyAssignmentsForWorkload, tas_flavor_snapshot.go Fits. Flavors
may have nodes in common (TASHandleOverlappingFlavors): where leaves are nodes, what one flavor's pods take is taken
from all. Kueue takes it from the others only with the next cycle; here it is at once, so that no node is given twice.

Where the kubelets are known, no pod is placed that its kubelet would refuse: Kubelets and Holdings tell what each has
left in its zones, with the pods that are placed and not yet reported. Pods of a pod set of which the shape is not known
are placed by their requests alone. So are all where a topology ends above the host; and where a flavor has none, the
quota alone decides, as Kueue has it: which nodes take the pods is then up to kube-scheduler and the extender.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from typing import TYPE_CHECKING

from zonewise_scheduler.queue.placing.holdings import Holdings
from zonewise_scheduler.queue.placing.pods import gained, in_groups, places_of
from zonewise_scheduler.queue.placing.refusal import no_place
from zonewise_scheduler.queue.placing.search import Search, search
from zonewise_scheduler.queue.placing.trial import Given, Trial
from zonewise_scheduler.queue.placing.zones import ZONE
from zonewise_scheduler.queue.quota.places import NoPlace
from zonewise_scheduler.queue.topology.model import HOSTNAME, Assignment, Domain, Options
from zonewise_scheduler.queue.topology.place import place
from zonewise_scheduler.queue.topology.refusal import Refused
from zonewise_scheduler.queue.topology.replace import replace
from zonewise_scheduler.queue.topology.shape import has_levels
from zonewise_scheduler.queue.topology.usage import added, with_pods

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.queue.placing.ground import Ground
    from zonewise_scheduler.queue.placing.holdings import Who
    from zonewise_scheduler.queue.placing.kubelets import Kubelets
    from zonewise_scheduler.queue.placing.pods import Spot
    from zonewise_scheduler.queue.quota.model.workload import TopologyRequest, Workload
    from zonewise_scheduler.queue.quota.places import Found, Wish
    from zonewise_scheduler.queue.topology.model import PodSet
    from zonewise_scheduler.queue.topology.place import Placed
    from zonewise_scheduler.queue.topology.usage import Usage

_DEFAULTS = Options()

_Books = dict[str, "Usage"]
"""By flavor; absent: nothing."""


class Topologies:
    """Implements quota's Places."""

    def __init__(
        self, grounds: Iterable[Ground], options: Options = _DEFAULTS, kubelets: Kubelets | None = None
    ) -> None:
        """Take the flavors' nodes; `kubelets` are by the rows of their one table, None: nothing is known of zones.

        Raises ValueError where there are kubelets, and flavors have tables of their own.
        """
        self._grounds = {one.flavor.name: one for one in grounds}
        self._options = options
        self._used: _Books = {}
        self._holdings = None if kubelets is None else Holdings(kubelets)
        tables = {id(one.nodes) for one in self._grounds.values()}
        if kubelets is not None and len(tables) > 1:
            raise ValueError("kubelets: the flavors' nodes are in several tables")

    def has(self, flavor: str) -> bool:
        """Tell whether the flavor has a topology that is known."""
        return flavor in self._grounds

    def has_level(self, flavor: str, request: TopologyRequest) -> bool:
        """Tell whether its topology has the levels that are asked for."""
        tree = self._grounds[flavor].tree
        zones = (ZONE,) if tree.has_nodes and self._holdings is not None else ()
        return has_levels((*tree.keys, *zones), request.request)

    def find(self, workload: Workload, wishes: Mapping[str, Sequence[Wish]], *, empty: bool) -> Found | NoPlace:
        """Find places for the wishes, by flavor; `empty`: as if nothing ran."""
        used: _Books = {} if empty else self._used
        trial = self._trial(empty=empty)
        found: Found = {}
        for flavor in sorted(wishes):
            for group in self._groups(workload, wishes[flavor]):
                placed = self._place(workload, group, flavor, used, trial)
                if isinstance(placed, NoPlace):
                    return placed
                found |= placed
                if len(found) < sum(map(len, wishes.values())):
                    used = self._with(used, gained(workload, group, placed, self.has))
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
        return self._admit(more)

    def add(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that a workload has the places of its admission, beyond those that it held before."""
        more = places_of(workload, self.has, held)
        self._used = self._with(self._used, more)
        for holdings, one, shape, at in self._on_nodes(more):
            for row, count in at.items():
                holdings.add(row, (workload.key, one.pod_set), shape, count)

    def remove(self, workload: Workload, held: Workload | None = None) -> None:
        """Take note that it has them no more."""
        more = places_of(workload, self.has, held)
        self._used = self._with(self._used, more, sign=-1)
        for holdings, one, _, at in self._on_nodes(more):
            for row, count in at.items():
                holdings.remove(row, (workload.key, one.pod_set), count)

    def add_all(self, workloads: Iterable[Workload]) -> None:
        """Take note of several."""
        for one in workloads:
            self.add(one)

    def remove_all(self, workloads: Iterable[Workload]) -> None:
        """Take note that several have their places no more."""
        for one in workloads:
            self.remove(one)

    def copy(self) -> Topologies:
        """Return another that changes on its own; what is used is shared until then."""
        other = copy(self)
        other._used = dict(self._used)
        other._holdings = None if self._holdings is None else self._holdings.copy()
        return other

    def report(self, row: int, state: NodeState | None, there: Mapping[Who, int]) -> None:
        """Take the report of a node, by its row; `there`: how many of the pods of each set it accounts for.

        Who: the workload's key and the pod set's name. Pods beyond those are put on top of it, as if they came now.
        Raises ValueError where no kubelets are known.
        """
        if self._holdings is None:
            raise ValueError("report: the topologies were made without kubelets")
        self._holdings.report(row, state, there)

    def state(self, row: int) -> NodeState | None:
        """Return a node as its kubelet is foretold to be once all pods are there that it was given.

        Nothing is left of one whose pods no longer fit; None where nothing is known of it.
        """
        return None if self._holdings is None else self._holdings.table().state(row)

    def zones(self, workload: Workload) -> dict[str, Assignment]:
        """Return by pod set the zones of its hosts that the pods of a running workload have, as was foretold.

        Levels: hostname and zone. A zone is its number, several are joined by commas; "" for pods that are given
        nothing of a zone, or of which nothing is known. Kueue's API has no place for it.
        """
        found: dict[str, Assignment] = {}
        for holdings, one, _, at in self._on_nodes(places_of(workload, self.has)):
            domains: list[Domain] = []
            for row in at:
                zones = Counter(holdings.zones(row, (workload.key, one.pod_set)))
                host = self._grounds[one.flavor].nodes.name(row)
                domains += [Domain((host, _numbers(each)), zones[each]) for each in sorted(zones)]
            found[one.pod_set] = Assignment((HOSTNAME, ZONE), tuple(domains))
        return found

    def _groups(self, workload: Workload, wishes: Sequence[Wish]) -> list[list[Wish]]:
        """Return wishes that are placed together; what moves from a failed node moves set by set."""
        return [[wish] for wish in wishes] if self.broken(workload) else in_groups(wishes)

    def _place(
        self, workload: Workload, wishes: Sequence[Wish], flavor: str, used: _Books, trial: Trial | None
    ) -> dict[str, Assignment] | NoPlace:
        """Find places in one flavor; for pods of a failed node beside those that stay."""
        ground = self._grounds[flavor]
        supply = ground.supply(used.get(flavor, {}))
        failed = workload.failed_nodes if self.broken(workload) else ()
        if len(failed) > 1:
            return NoPlace(wishes[0].pod_set.name, flavor, f"several nodes failed at once: {', '.join(failed)}")
        held = {one.pod_set: one.at for one in places_of(workload, self.has)}

        def attempt(pod_sets: Sequence[PodSet]) -> Placed | Refused:
            if failed:
                return replace(supply, pod_sets, held, failed[0], self._options)
            return place(supply, pod_sets, self._options)

        one = Search(ground, trial if ground.tree.has_nodes else None, wishes, held)
        try:
            outcome = search(one, attempt)
        except ValueError as error:  # a workload that no API server would have taken
            return NoPlace(wishes[0].pod_set.name, flavor, str(error))
        if isinstance(outcome.found, Refused):
            return no_place(one, outcome, outcome.found)
        return outcome.found.assignments

    def _trial(self, *, empty: bool) -> Trial | None:
        if self._holdings is None:
            return None
        kubelets = self._holdings.kubelets
        return Trial(kubelets, kubelets.empty() if empty else self._holdings.table())

    def _admit(self, spots: Iterable[Spot]) -> bool:
        """Tell whether the kubelets admit pods, one set after the other."""
        trial = self._trial(empty=False)
        if trial is None:
            return True
        for _, one, shape, at in self._on_nodes(spots):
            most = trial.most(shape, max(at.values()), one.whole)
            if any(most[row] < count for row, count in at.items()):
                return False
            trial.give([Given(one.pod_set, shape, one.whole, at)])
        return True

    def _on_nodes(self, spots: Iterable[Spot]) -> Iterator[tuple[Holdings, Spot, PodShape, dict[int, int]]]:
        """Yield the pods of which kubelets decide, where there are any, and how many are on each node, by row."""
        for one in spots:
            ground = self._grounds[one.flavor]
            if self._holdings is None or one.shape is None or not ground.tree.has_nodes:
                continue
            rows = ground.rows()
            leaves = ((ground.tree.leaf(domain.values), domain.pods) for domain in one.at.domains)
            at = {int(rows[leaf]): pods for leaf, pods in leaves if leaf is not None}
            if at:
                yield self._holdings, one, one.shape, at

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


def _numbers(zones: int) -> str:
    return ",".join(str(zone) for zone in range(zones.bit_length()) if zones >> zone & 1)
