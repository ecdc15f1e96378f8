"""Randomly generated cycles with the decisions of Kueue's scheduler: the planner's cycle makes the same decisions.

tests/fixtures/quota/cycles.jsonl.gz has one case per line: queues, cohorts, workloads, and up to four cycles of
pkg/scheduler/scheduler.go `schedule` at commit ff69552e79ad. After each cycle, the workloads of `ended` are removed:
its victims, and sometimes a random one. Quotas, limits, preemption policies, weights and requests are random.
"""

from __future__ import annotations

import functools
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.kueue_cases import cluster_queue, cohort, workload
from zonewise_scheduler.quota.api.configuration import QuotaSettings
from zonewise_scheduler.quota.api.queue_types import ResourceFlavor
from zonewise_scheduler.quota.cycle.scheduling_cycle import run_cycle
from zonewise_scheduler.quota.hierarchy.snapshot import Snapshot
from zonewise_scheduler.quota.queue.heads import pop_heads
from zonewise_scheduler.quota.queue.pending_workloads import PendingWorkloads

if TYPE_CHECKING:
    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.cycle.entry import Decision

RECORDING = Path(__file__).parent.parent / "fixtures/quota/cycles.jsonl.gz"
STATUSES = frozenset({"admitted", "skipped"})
"""Statuses that Kueue has too; reasons distinguish the others."""
REQUEUE_REASONS = {"NoCandidates": "PreemptionNoCandidates"}
"""Kueue's reason by ours."""
PARTS = 4
"""Number of parts of the cases, which workers test in parallel."""


@functools.cache
def recorded_cases() -> list[Json]:
    with gzip.open(RECORDING, "rt") as lines:
        return [json.loads(line) for line in lines]


class Replay:
    """The queues of a case, and the planner's decisions about them."""

    def __init__(self, case: Json) -> None:
        workloads = list(map(workload, case["workloads"]))
        specs = list(map(cluster_queue, case["queues"]))
        flavors = (ResourceFlavor(name) for name in "abc")
        self.snapshot = Snapshot(specs, map(cohort, case["cohorts"] or ()), flavors, workloads)
        self.settings = QuotaSettings(case["fair"])
        self.pending = {spec.name: PendingWorkloads(spec) for spec in specs}
        self._queues = {new.name: f"q{new.queue_name[1:]}" for new in workloads}
        """The ClusterQueue of each workload; the LocalQueue l0 belongs to q0."""
        for new in workloads:
            if new.admission is None:
                self.pending[self._queues[new.name]].push_or_update(new)

    def cycle(self, number: int) -> list[Json]:
        """Run a cycle; return its decisions in their order."""
        heads = pop_heads(self.pending.values(), self.snapshot, None, number)
        decisions = run_cycle(self.snapshot, heads, self.settings, 100.0 + number, number)
        for decision in decisions:
            if decision.status != "admitted":
                self.pending[decision.head.cluster_queue].requeue(decision)
        return list(map(flat_decision, decisions))

    def ordered(self, decisions: list[Json]) -> list[Json]:
        """Return decisions in the order that Kueue defines: under fair sharing, only that within each tree of cohorts.

        The order of the trees is then that of a Go map (fair_sharing_iterator.go `pop`).
        """
        return sorted(decisions, key=self._tree_of) if self.settings.fair_sharing else decisions

    def _tree_of(self, decision: Json) -> str:
        name = self._queues[decision["name"]]
        root = self.snapshot.cluster_queues[name].root
        return name if root is None else f"/{root.name}"

    def end(self, names: list[str]) -> None:
        """Remove workloads; if there are any, make all pending workloads active again."""
        for name in names:
            for workloads in list(self.snapshot.workloads_by_queue.values()):
                if (ended := workloads.get(f"default/{name}")) is not None:
                    self.snapshot.remove_workload(ended)
        for queue in self.pending.values() if names else ():
            queue.queue_inadmissible_workloads()

    def pending_names(self) -> tuple[Json, Json]:
        """Return the active and the inadmissible workloads of each queue that has any."""
        active = {name: names_of(queue.active) for name, queue in self.pending.items() if queue.active}
        inadmissible = {
            name: names_of(queue.inadmissible) for name, queue in self.pending.items() if queue.inadmissible
        }
        return active, inadmissible


def names_of(keys: Any) -> list[str]:
    return sorted(key.removeprefix("default/") for key in keys)


def flat_decision(decision: Decision) -> Json:
    """Return a decision in the form of the recording."""
    status = decision.status if decision.status in STATUSES else ""
    flat: Json = {"name": decision.workload.name, "status": status}
    if decision.status == "admitted":
        assert decision.workload.admission is not None
        pod_sets = decision.workload.admission.pod_sets
        return {**flat, "podSets": [[pod_set.name, pod_set.pods, dict(pod_set.flavors)] for pod_set in pod_sets]}
    requeue = REQUEUE_REASONS.get(decision.requeue_reason, decision.requeue_reason)
    flat |= {"requeue": requeue, "reason": decision.reason}
    if decision.preemption_targets and decision.status == "preempting":
        flat["victims"] = sorted([target.workload.name, target.reason] for target in decision.preemption_targets)
    return flat


@pytest.mark.parametrize("part", range(PARTS))
def test_cycles_equal_those_of_kueue(part: int) -> None:
    for number, case in list(enumerate(recorded_cases()))[part::PARTS]:
        replay = Replay(case)
        for index, cycle in enumerate(case["cycles"]):
            decisions = replay.cycle(index + 1)
            assert replay.ordered(decisions) == replay.ordered(cycle["decisions"]), f"case {number}, cycle {index}"
            assert replay.pending_names() == (cycle["active"], cycle["inadmissible"]), f"case {number}, cycle {index}"
            replay.end(cycle["ended"] or [])
