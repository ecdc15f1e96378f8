"""A joint plan for the waiting pods, which uses as much of few nodes as possible.

Pods of a higher priority are packed first. Pods of one priority are packed jointly if their waits are of one class,
those of longer waits first. A slot of a plan is a zone of a node for one pod of a kind. The plan is not binding: the
ledger judges each assumption again.

A kubelet allocates from the lowest zone that fits, and pods may arrive in any order. If a node has further slots, a
slot is therefore held until reports cover the pods for lower zones. From then on the pod would be allocated from its
zone in every order of arrival. Without the hold, the kubelet might break the plan for the rest of the node.

If the pod gets another zone in every order, and the plan has no pods for lower zones, no report changes that. Then
there is no hold.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.admission.pod import PodShape
from zonewise_scheduler.nodes.assumed.types import BLOCKED_BY_ASSUMED
from zonewise_scheduler.nodes.filters.constraints import Constraints
from zonewise_scheduler.nodes.packing.bin_packing import PackBin, PackItem, fitting, pack
from zonewise_scheduler.nodes.packing.zone_bins import bin_amounts, is_packable, node_bins

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.extender.placing.placer import Placer
    from zonewise_scheduler.extender.state.cluster_state import ClusterState
    from zonewise_scheduler.extender.state.waiting_pods import WaitingPod
    from zonewise_scheduler.nodes.arrays.layout import Layout
    from zonewise_scheduler.nodes.packing.bin_packing import Amounts

MAX_NODES = 48
"""Maximum number of nodes that may admit a pod: if there are more, pods are placed one by one, by score."""
MAX_KINDS = 64
"""Maximum number of kinds of pods that are packed, the first by rank."""
OVERDUE = 60.0
"""Seconds after which a pod is packed before younger ones of its priority. The same applies each time that its wait has
grown fourfold. If all overdue pods were alike, some kinds would wait for long, since others fill the zones better."""
HOLD = 2.0
"""Maximum seconds for which a node's slots are held: the report of a healthy node comes much earlier."""
_SHARE = 1_000_000
"""Weight of an item that takes all of a resource."""

PodKind = tuple[PodShape, Constraints]
PackClass = tuple[int, int]
"""The negative priority, and the negative class of the wait."""


class Slot(NamedTuple):
    """A zone of a node for one pod; zone 0 if the node is one bin."""

    node: str
    zone: int


class NodeRow(NamedTuple):
    """A node that may admit a waiting pod."""

    name: str
    layout: Layout
    free: tuple[Amounts, ...]
    kinds: tuple[bool, ...]
    """Whether the node may be selected, by kind."""


def kind_of(pod: WaitingPod) -> PodKind:
    """Return the kind of a pod: pods of a kind are interchangeable in a plan."""
    return pod.pod.shape, pod.spec.constraints


class JointPlan:
    """The remaining slots, by kind of pod."""

    def __init__(self, slots: dict[PodKind, list[Slot]], priority: int) -> None:
        self.slots = slots
        self.priority = priority
        """Highest priority of the planned pods."""

    def reserved_nodes(self, kinds: Iterable[PodKind] | None = None) -> frozenset[str]:
        """Return the nodes with slots for some kinds of pods; None: for any kind."""
        return frozenset(
            slot.node for kind in (self.slots if kinds is None else kinds) for slot in self.slots.get(kind, ())
        )

    def slots_of(self, node: str) -> list[Slot]:
        """Return the slots of a node."""
        return [slot for slots in self.slots.values() for slot in slots if slot.node == node]

    def remove(self, kind: PodKind, slot: Slot) -> None:
        """Remove a slot that is used or useless."""
        self.slots[kind].remove(slot)
        if not self.slots[kind]:
            del self.slots[kind]


class JointPlanner:
    """Makes plans. The caller holds the judging lock; the placer is up to date."""

    def __init__(self, state: ClusterState, placer: Placer) -> None:
        self._state = state
        self._placer = placer
        self._cached: tuple[frozenset[str], int, JointPlan] | None = None
        self._held_since: dict[str, float] = {}
        self._packable: tuple[int, dict[PodShape, bool]] = -1, {}  # for a revision of the table

    def plan(self, pods: Sequence[WaitingPod], now: float) -> JointPlan | None:
        """Return a plan for pods in order of their rank, or None if there are too many nodes."""
        uids, revision = frozenset(pod.pod.uid for pod in pods), self._placer.table.revision
        if self._cached is not None and self._cached[:2] == (uids, revision):
            return self._cached[2]
        plan = self._new_plan(pods, now)
        self._cached = None if plan is None else (uids, revision, plan)
        return plan

    def is_valid(self, plan: JointPlan) -> bool:
        """Return whether only uses of the plan have changed the nodes since it was made."""
        return self._cached is not None and self._cached[1:] == (self._placer.table.revision, plan)

    def use(self, plan: JointPlan, pod: WaitingPod, slot: Slot) -> None:
        """Remove a slot because the pod is assumed there; the rest of the plan remains valid."""
        plan.remove(kind_of(pod), slot)
        self._held_since.pop(slot.node, None)
        self._placer.refresh()
        if self._cached is not None and self._cached[2] is plan:
            self._cached = self._cached[0] - {pod.pod.uid}, self._placer.table.revision, plan

    def skip(self, plan: JointPlan, pod: WaitingPod, slot: Slot, reason: str) -> None:
        """Remove a slot that its node rejects, unless the node's next report may end the rejection."""
        if reason != BLOCKED_BY_ASSUMED:
            plan.remove(kind_of(pod), slot)

    def is_held(self, plan: JointPlan, pod: WaitingPod, slot: Slot, now: float) -> bool:
        """Return whether a pod must wait for reports, since it might not be allocated from its zone."""
        if not self._might_miss(plan, pod, slot):
            return False
        return now < self._held_since.setdefault(slot.node, now) + HOLD

    def _might_miss(self, plan: JointPlan, pod: WaitingPod, slot: Slot) -> bool:
        """Return whether the node's free amounts by zone might depend on the order of arrival or differ from the plan.

        They matter only if the node has further slots. A certain difference matters only if the plan has pods for lower
        zones.
        """
        slots = plan.slots_of(slot.node)
        if len(slots) == 1:
            return False
        with self._state.lock:
            before, admit = self._state.ledger.assumed_state(slot.node), self._state.ledger.admit
        if before is None or before.state is None:
            return False
        verdict, after = before.assume(pod.pod.shape, admit)
        if not verdict.admitted:
            return verdict.reason == BLOCKED_BY_ASSUMED
        outcomes = {node_bins(state).free for state in after.final_states(admit)}
        free = node_bins(before.state)
        amounts = bin_amounts(free.layout, pod.pod.shape)
        planned = tuple(
            _difference(zone_free, amounts) if zone == slot.zone and amounts else zone_free
            for zone, zone_free in enumerate(free.free)
        )
        if len(outcomes) == 1 and not any(other.zone < slot.zone for other in slots):
            return False
        return outcomes != {planned}

    def is_packable(self, pod: WaitingPod) -> bool:
        """Return whether a plan may have slots for a pod: amounts determine its bin on the nodes that may admit it."""
        table, shape = self._placer.table, pod.pod.shape
        if self._packable[0] != table.revision:
            self._packable = table.revision, {}
        known = self._packable[1].get(shape)
        if known is None:
            states = [table.state_of(name) for name in table.possible_nodes(shape, MAX_NODES)]
            known = any(states) and all(is_packable(node_bins(state), shape) for state in states if state is not None)
            self._packable[1][shape] = known
        return known

    # --- planning

    def _new_plan(self, pods: Sequence[WaitingPod], now: float) -> JointPlan | None:
        counts: dict[PackClass, Counter[PodKind]] = defaultdict(Counter)
        kinds: dict[PodKind, None] = {}
        for pod in pods:
            kind = kind_of(pod)
            if kind in kinds or len(kinds) < MAX_KINDS:
                kinds[kind] = None
                counts[-pod.spec.priority, -_wait_class(now - pod.observed)][kind] += 1
        rows = self._rows(list(kinds), now)
        if rows is None:
            return None
        self._end_holds()
        packing = _Packing(rows, list(kinds))
        slots: dict[PodKind, list[Slot]] = defaultdict(list)
        for pack_class in sorted(counts):
            for kind, slot in packing.pack(counts[pack_class]):
                slots[kind].append(slot)

        highest = max((pod.spec.priority for pod in pods), default=0)
        return JointPlan(dict(slots), highest)

    def _end_holds(self) -> None:
        """Drop the holds of nodes that no longer have assumed pods."""
        with self._state.lock:
            for name in list(self._held_since):
                assumed_state = self._state.ledger.assumed_state(name)
                if assumed_state is None or not assumed_state.shapes:
                    del self._held_since[name]

    def _rows(self, kinds: Sequence[PodKind], now: float) -> list[NodeRow] | None:
        """Return the nodes that may admit any of the kinds, or None if there are too many."""
        placer = self._placer
        names: dict[str, None] = {}
        for shape in dict.fromkeys(shape for shape, _ in kinds):
            names.update(dict.fromkeys(placer.table.possible_nodes(shape, MAX_NODES + 1)))
            if len(names) > MAX_NODES:
                return None
        passing = {constraints: placer.filters.passing(constraints) for _, constraints in kinds}
        rows: list[NodeRow] = []
        for name in names:
            state = placer.table.state_of(name)
            if state is None or placer.is_stale(name, now):
                continue
            layout, free, _ = node_bins(state)
            rows.append(NodeRow(name, layout, free, tuple(name in passing[constraints] for _, constraints in kinds)))
        return rows


class _Packing:
    """The bins of a plan. Each class of pods fills them further."""

    def __init__(self, rows: Sequence[NodeRow], kinds: Sequence[PodKind]) -> None:
        self._kinds = kinds
        groups = {key: index for index, key in enumerate(dict.fromkeys((row.layout, row.kinds) for row in rows))}
        self._slots = [Slot(row.name, zone) for row in rows for zone in range(len(row.free))]
        self._bins = [PackBin(groups[row.layout, row.kinds], free) for row in rows for free in row.free]
        self._amounts: dict[PodKind, tuple[Amounts | None, ...]] = {
            kind: tuple(bin_amounts(layout, kind[0]) if flags[index] else None for layout, flags in groups)
            for index, kind in enumerate(kinds)
        }
        layouts = [layout for layout, _ in groups]
        totals = {layout: _sum(free for row in rows if row.layout == layout for free in row.free) for layout in layouts}
        self._totals = [totals[layout] for layout in layouts]

    def weight(self, kind: PodKind) -> int:
        """Return the largest share that a pod takes of the free amount of any resource."""
        shares = [
            amount * _SHARE // max(total, 1)
            for amounts, totals in zip(self._amounts[kind], self._totals, strict=True)
            for amount, total in zip(amounts or (), totals, strict=False)
        ]
        return max(shares, default=0) or 1

    def pack(self, counts: Counter[PodKind]) -> Iterable[tuple[PodKind, Slot]]:
        """Yield the slots of a class of pods, and subtract their amounts from the bins."""
        largest: dict[int, Amounts] = {}
        for group, free in self._bins:
            largest[group] = tuple(map(max, largest.get(group, free), free))
        kinds = [
            kind for kind in counts if any(fitting(free, self._amounts[kind][group]) for group, free in largest.items())
        ]
        if not kinds:
            return
        items = [PackItem(self._amounts[kind], self.weight(kind), counts[kind]) for kind in kinds]
        for index, filling in enumerate(pack(self._bins, items)):
            bin_ = self._bins[index]
            for kind, number in zip(kinds, filling, strict=True):
                amounts = self._amounts[kind][bin_.group] or ()
                for _ in range(number):
                    self._bins[index] = bin_ = bin_._replace(free=_difference(bin_.free, amounts))
                    yield kind, self._slots[index]


def _wait_class(wait: float) -> int:
    """Return 0 for a wait of less than OVERDUE, 1 for one of less than four times OVERDUE, and so on."""
    return (int(wait / OVERDUE).bit_length() + 1) // 2


def _difference(free: Amounts, amounts: Amounts) -> Amounts:
    return tuple(have - amount for have, amount in zip(free, amounts, strict=True))


def _sum(vectors: Iterable[Amounts]) -> Amounts:
    return tuple(map(sum, zip(*vectors, strict=True)))
