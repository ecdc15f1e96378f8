"""What the queue's pods hold of the nodes' zones, as their kubelets are foretold to give it."""

from __future__ import annotations

from collections import OrderedDict
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.fit.ledger.flight import drained
from zonewise_scheduler.queue.placing.fill import answer
from zonewise_scheduler.queue.placing.taken import given_back, memory_zones, taken, taken_again

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from zonewise_scheduler.fit.batch.table import Table
    from zonewise_scheduler.fit.model.node import NodeState
    from zonewise_scheduler.fit.model.pod import PodShape
    from zonewise_scheduler.queue.placing.kubelets import Kubelets
    from zonewise_scheduler.queue.placing.taken import Taken

Who = tuple[str, str]
"""The key of a workload, and the name of its pod set."""

_REMEMBERED = 1 << 16
"""Pods of which is known what they had when they left: those that a decision takes out for a while."""


class Pods(NamedTuple):
    """Pods of one set on one node."""

    shape: PodShape
    have: tuple[Taken, ...] = ()
    """By pod."""
    owed: int = 0
    """How many more are to be there and find no room; nothing is left of the node meanwhile."""

    @property
    def number(self) -> int:
        """Return how many pods."""
        return len(self.have) + self.owed


class Host(NamedTuple):
    """A node with pods of the queue."""

    state: NodeState | None
    """With those that have something; None: there is no report, and all are owed."""
    pods: Mapping[Who, Pods]
    """In the order in which they came."""

    @property
    def shown(self) -> NodeState | None:
        """Return the node as others find it."""
        crowded = self.state is not None and any(one.owed for one in self.pods.values())
        return drained(self.state) if crowded and self.state is not None else self.state


class Holdings:
    """Which pods are on which nodes, and what each of them has.

    Pods are given what kubelets give them in the order in which they are added. One that leaves gives back just that,
    and has it again when it comes back, if nobody has taken it meanwhile: so what is tried out can be undone. What
    kubelets give is worked out only when somebody asks.
    """

    def __init__(self, kubelets: Kubelets) -> None:
        self.kubelets = kubelets
        self.shown: dict[int, NodeState | None] = {}
        """By row, where pods of the queue are: as of the last time that somebody asked."""
        self.changed: set[int] = set()
        """Rows that changed since the arrays of Kubelets had them."""
        self._hosts: dict[int, Host] = {}
        self._due: set[int] = set()
        """Rows of which somebody has come or gone since."""
        self._left: OrderedDict[tuple[int, Who], tuple[Taken, ...]] = OrderedDict()
        self._remembered = 0
        self._stamp = next(kubelets.stamps)

    def stamp(self) -> int:
        """Return a number that is another whenever a node may be; copies that have the same are equal."""
        self._settle()
        return self._stamp

    def table(self) -> Table:
        """Return all nodes as they are now."""
        self._settle()
        return self.kubelets.table(self)

    def copy(self) -> Holdings:
        """Return others that change on their own."""
        self._settle()
        made = Holdings(self.kubelets)
        made._hosts, made.shown, made.changed = dict(self._hosts), dict(self.shown), set(self.changed)
        made._stamp = self._stamp
        return made

    def zones(self, row: int, who: Who) -> list[int]:
        """Return the sets of zones that pods have on a node; 0 for one that has none or of which nothing is known."""
        self._settle()
        found = self._pods(row, who)
        return [] if found is None else [one.zones for one in found.have] + [0] * found.owed

    def add(self, row: int, who: Who, shape: PodShape, count: int) -> None:
        """Put pods on a node."""
        host = self._hosts.get(row) or Host(self.kubelets.bare[row], {})
        left = self._left.pop((row, who), ())
        self._remembered -= len(left)
        back: list[Taken] = []
        for one in left[:count]:
            state = None if host.state is None else taken_again(host.state, one)
            if state is not None:
                host = host._replace(state=state)
                back.append(one)
        own = host.pods.get(who, Pods(shape))
        own = own._replace(have=own.have + tuple(back), owed=own.owed + count - len(back))
        self._put(row, host._replace(pods={**host.pods, who: own}))

    def remove(self, row: int, who: Who, count: int) -> None:
        """Take pods off a node: first those that found no room, then the last to come."""
        host, own = self._hosts.get(row), self._pods(row, who)
        if host is None or own is None:
            return
        stay = len(own.have) - max(count - own.owed, 0)
        gone = own.have[max(stay, 0) :]
        own = own._replace(have=own.have[: max(stay, 0)], owed=max(own.owed - count, 0))
        self._remember(row, who, gone)
        pods = {name: own if name == who else one for name, one in host.pods.items()}
        if not own.number:
            del pods[who]
        state = None if host.state is None else _without(host.state, gone, self._assigned(row, pods.values()))
        self._put(row, Host(state, pods))

    def report(self, row: int, state: NodeState | None, there: Mapping[Who, int]) -> None:
        """Take a new report of a node; `there`: how many of the queue's pods it accounts for; None: there is none.

        Those have what they were foretold; the others are put on the node once more, as if they came now.
        """
        self._settle()
        host = self._hosts.get(row) or Host(state, {})
        pods: dict[Who, Pods] = {}
        for who, one in host.pods.items():
            have = () if state is None else one.have[: there.get(who, 0)]
            pods[who] = one._replace(have=have, owed=one.number - len(have))
        mine = tuple(chain.from_iterable(one.have for one in pods.values()))
        self.kubelets.set(row, None if state is None else _without(state, mine, _others(state, mine)))
        self._put(row, Host(state, pods))

    def _pods(self, row: int, who: Who) -> Pods | None:
        host = self._hosts.get(row)
        return None if host is None else host.pods.get(who)

    def _assigned(self, row: int, pods: Iterable[Pods]) -> int:
        """Return the zones of which others than the queue, or some pods of it, have memory."""
        bare = self.kubelets.bare[row]
        found = 0 if bare is None else bare.memory_assigned
        for one in pods:
            found |= memory_zones(one.have)
        return found

    def _remember(self, row: int, who: Who, gone: tuple[Taken, ...]) -> None:
        """Remember what pods had, of as many as were the last to leave."""
        if not gone:
            return
        self._left[row, who] = self._left.pop((row, who), ()) + gone
        self._remembered += len(gone)
        while self._remembered > _REMEMBERED and len(self._left) > 1:
            _, forgotten = self._left.popitem(last=False)
            self._remembered -= len(forgotten)

    def _put(self, row: int, host: Host) -> None:
        self._due.add(row)
        if host.pods:
            self._hosts[row] = host
        else:
            self._hosts.pop(row, None)

    def _settle(self) -> None:
        """Give as many of those that are owed as find room what they get."""
        if not self._due:
            return
        self._stamp = next(self.kubelets.stamps)
        for row in self._due:
            host = self._hosts.get(row)
            if host is None:
                self.shown.pop(row, None)
                continue
            for who, one in host.pods.items():
                if one.owed:
                    host = _admitted(host, who, one)
            self._hosts[row], self.shown[row] = host, host.shown
        self.changed |= self._due
        self._due.clear()


def _admitted(host: Host, who: Who, one: Pods) -> Host:
    """Return a node with as many of those that are owed as it admits."""
    have, owed, state = list(one.have), one.owed, host.state
    while owed and state is not None:
        verdict = answer(state, one.shape)
        if verdict.after is None:
            break
        have.append(taken(state, verdict))
        state = verdict.after
        owed -= 1
    return Host(state, {**host.pods, who: Pods(one.shape, tuple(have), owed)})


def _without(state: NodeState, gone: Sequence[Taken], assigned: int) -> NodeState:
    for one in gone:
        state = given_back(state, one, assigned)
    return state


def _others(state: NodeState, mine: Sequence[Taken]) -> int:
    """Return the set of zones of which others than these pods have memory: where some is missing without them."""
    bare = _without(state, mine, 0)
    rows = zip(state.kind.zones, bare.memory_free, state.kind.allocatable, strict=False)
    return state.memory_assigned & sum(1 << zone for zone, free, most in rows if free != most)
