"""Places for pods that are placed together, so that every kubelet admits what it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zonewise_scheduler.queue.placing.pods import as_placed, asked_of, beyond
from zonewise_scheduler.queue.placing.trial import Given
from zonewise_scheduler.queue.placing.zones import ZONE, names_zone
from zonewise_scheduler.queue.topology.model import Options
from zonewise_scheduler.queue.topology.refusal import Refused
from zonewise_scheduler.queue.topology.shape import shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from zonewise_scheduler.queue.placing.ground import Ground
    from zonewise_scheduler.queue.placing.trial import Trial
    from zonewise_scheduler.queue.quota.places import Wish
    from zonewise_scheduler.queue.topology.model import Assignment, PodSet
    from zonewise_scheduler.queue.topology.place import Placed

    Attempt = Callable[[Sequence[PodSet]], Placed | Refused]
    """Places pods by the bounds that they have; a leader comes after its workers."""

_TRIES, _ASKED = 64, 512
"""How often a leader is given another host, and how many hosts are asked each time."""


class Search(NamedTuple):
    """One set, or a leader and then its workers, that look for places."""

    ground: Ground
    trial: Trial | None
    """None: nothing is known of kubelets."""
    wishes: Sequence[Wish]
    held: Mapping[str, Assignment]
    """Where pods are already."""


class Outcome(NamedTuple):
    """What was found, and what it was looked for by."""

    found: Placed | Refused
    pod_sets: list[PodSet]
    wholes: list[int]
    """What of each set is to be in one zone."""


def search(one: Search, attempt: Attempt) -> Outcome:
    """Return places, which are given to the trial too; what one zone should hold is tried first as if it must."""
    outcome = _search(one, attempt, strict=True)
    softer = [as_placed(wish, strict=False) for wish in one.wishes]
    if isinstance(outcome.found, Refused) and [whole for _, whole in softer] != outcome.wholes:
        outcome = _search(one, attempt, strict=False)
    return outcome


def _search(one: Search, attempt: Attempt, *, strict: bool) -> Outcome:
    pairs = [as_placed(wish, strict=strict) for wish in one.wishes]
    pod_sets, wholes = [pods for pods, _ in pairs], [whole for _, whole in pairs]
    problem = _problem(one)
    if problem is not None or one.trial is None:
        return Outcome(problem or attempt(pod_sets[::-1]), pod_sets, wholes)
    pod_sets = [_bound(one, one.trial, place, pods, wholes[place]) for place, pods in enumerate(pod_sets)]
    found = attempt(pod_sets[::-1])
    asked = np.zeros(one.ground.tree.leaves, np.bool_)
    for _ in range(_TRIES):
        if isinstance(found, Refused):
            return Outcome(found, pod_sets, wholes)
        given = _given(one, wholes, found.assignments)
        short = one.trial.short(given)
        if not short:
            one.trial.give(given)
            return Outcome(found, pod_sets, wholes)
        pod_sets[-1] = _beside(one, one.trial, pod_sets, wholes[-1], (asked, short))
        found = attempt(pod_sets[::-1])
    problem = Refused(pod_sets[-1].name, one.ground.tree.name, f"no host of {_TRIES} takes the leader beside workers")
    return Outcome(problem, pod_sets, wholes)


def _problem(one: Search) -> Refused | None:
    """Return why a request that is about zones makes no sense, in the words in which that is told of other levels."""
    for wish in one.wishes:
        request = asked_of(wish.pod_set)
        if names_zone(request):
            pods = as_placed(wish)[0]._replace(request=request)
            found = shape_of((*one.ground.tree.keys, ZONE), pods, Options(), leader=False)
            if isinstance(found, str):
                return Refused(wish.pod_set.name, one.ground.tree.name, found)
    return None


def _bound(one: Search, trial: Trial, place: int, pods: PodSet, whole: int) -> PodSet:
    """Return pods with how many of them each host takes."""
    shape = one.wishes[place].pod_set.shape
    if shape is None:
        return pods
    return pods._replace(most=trial.most(shape, _limit(one, pods), whole)[one.ground.rows])


def _limit(one: Search, pods: PodSet) -> int:
    """Return how many pods any host has room for at most."""
    return min(pods.size, int(one.ground.nodes.left("pods").max(initial=0)))


def _given(one: Search, wholes: Sequence[int], found: Mapping[str, Assignment]) -> list[Given]:
    """Return the pods that are new on hosts, of the sets of which the shape is known."""
    rows = one.ground.rows
    made: list[Given] = []
    for wish, whole in zip(one.wishes, wholes, strict=True):
        name, shape = wish.pod_set.name, wish.pod_set.shape
        if shape is not None and name in found:
            at = beyond(found[name], one.held.get(name))
            leaves = ((one.ground.tree.leaf(domain.values), domain.pods) for domain in at.domains)
            made.append(Given(name, shape, whole, {int(rows[leaf]): pods for leaf, pods in leaves if leaf is not None}))
    return made


def _beside(
    one: Search,
    trial: Trial,
    pod_sets: Sequence[PodSet],
    whole: int,
    known: tuple[NDArray[np.bool_], Mapping[tuple[str, int], int]],
) -> PodSet:
    """Return the workers with how many of them hosts take beside the leader: those that were short, and some others."""
    leader, workers = pod_sets
    asked, short = known
    first, shape = (wish.pod_set.shape for wish in one.wishes)
    rows, pods = one.ground.rows, workers.most
    found = workers.beside
    if first is None or shape is None or pods is None or leader.most is None:
        return workers
    found = pods.copy() if found is None else found.copy()
    missed = np.isin(rows, [row for _, row in short])
    others = np.flatnonzero(~asked & ~missed & (leader.most > 0) & (pods > 0))[:_ASKED]
    for leaf in (*np.flatnonzero(missed).tolist(), *others.tolist()):
        found[leaf] = trial.beside(first, shape, int(pods[leaf]), whole, int(rows[leaf]))
    asked[missed] = asked[others] = True
    for (_, row), fewer in short.items():
        found[rows == row] = np.minimum(found[rows == row], fewer)
    return workers._replace(beside=found)
