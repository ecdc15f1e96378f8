"""Random sequences of events with the outcome in Kueue: the planner makes the same decisions.

Each line of tests/fixtures/quota/sequences.jsonl.gz is a case: queues, cohorts, flavors, and steps. A step has events
and `after`: the state of each workload once nothing more can start. The outcome comes from Kueue's scheduler and its
controllers of workloads and queues, at commit ff69552e79ad. They run until nothing changes. Evicted jobs stop at once.

The events are arrivals and ends, stopped queues, queues and cohorts that move, changed flavors, and deactivations.
Checks fail, and pods are not ready in time. Some cases have admission fair sharing.
"""

from __future__ import annotations

import functools
import gzip
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.quota.api.configuration import AdmissionFairSharingConfig, QuotaSettings
from zonewise_scheduler.quota.cycle.scheduling_cycle import admission_checks_for_workload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.kubelet_cases import Json
    from zonewise_scheduler.quota.api.workload_types import Workload

RECORDING = Path(__file__).parent.parent / "fixtures/quota/sequences.jsonl.gz"
PARTS = 3
"""Number of parts of the recording, which workers test in parallel."""
BASE = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
KINDS = ("queues", "cohorts", "flavors", "localQueues")
NAMESPACES = {"default": {"kubernetes.io/metadata.name": "default"}}
BACKOFF = 60.0
"""Seconds until a workload whose pods were not ready is queued again; doubled each time."""


class Sequence:
    """A planner, and the objects of a case."""

    def __init__(self, case: Json) -> None:
        sharing = case.get("afs")
        settings = QuotaSettings(
            case["fair"],
            tuple(case.get("strategies") or ()),
            admission_fair_sharing=None
            if sharing is None
            else AdmissionFairSharingConfig(sharing["HalfLife"], sharing["Interval"], sharing["Weights"] or None),
        )
        self._feed = PlannerFeed(BackfillPolicy(depth=0), settings)
        self._feed.state.assumed = None
        self._objects = {kind: {name_of(obj): obj for obj in case[kind]} for kind in KINDS}
        self._checks = case["checks"]
        self._now = BASE
        self._workloads: dict[str, Json] = {}
        self._evictions: dict[str, tuple[str, float]] = {}
        """Reason and time of the last eviction since the last start."""
        self._timeouts: dict[str, tuple[int, float]] = {}
        """Number of timeouts, and the time until which the workload is not queued."""
        self._finished: set[str] = set()
        self._configure()

    def apply(self, step: Json) -> None:
        """Apply the events of a step, and run passes until nothing more starts or stops."""
        self._now += step["advance"]
        for kind in KINDS:
            self._objects[kind] |= {name_of(obj): obj for obj in step.get(kind, ())}
        if any(step.get(kind) for kind in KINDS):
            self._configure()
        for name in self._known(step.get("end", ())):
            if (workload := self._running(name)) is not None and workload.is_admitted:
                self._feed.finish(workload.key)
                self._finished.add(name)
        self._stop()
        for name, (count, until) in list(self._timeouts.items()):
            if self._now - step["advance"] < until <= self._now:
                self._timeouts[name] = count, 0.0
                self._submit(name)
        self._change(step)
        self._stop()
        for manifest in step["arrive"]:
            self._workloads[name_of(manifest)] = manifest
            self._submit(name_of(manifest))
        while self._run_passes():
            pass

    def states(self) -> Json:
        """Return the state of each workload in the form of the recording."""
        return {name: self._state(name) for name in self._workloads}

    def _configure(self) -> None:
        fields = {"queues": "clusterQueues", "cohorts": "cohorts", "flavors": "resourceFlavors"}
        objects = {fields.get(kind, kind): list(self._objects[kind].values()) for kind in KINDS}
        self._feed.configure({**objects, "topologies": [], "admissionChecks": self._checks}, NAMESPACES)
        assert not self._feed.problems

    def _change(self, step: Json) -> None:
        """Apply the events of single workloads."""
        for name in self._known(step.get("priority", {})):
            self._workloads[name]["spec"]["priority"] = step["priority"][name]
            self._submit(name)
        late = [name for name in self._known(step.get("timeout", ())) if step.get("active", {}).get(name, True)]
        for name in self._known(step.get("active", {})):
            self._workloads[name]["spec"]["active"] = step["active"][name]
            if not step["active"][name]:
                self._timeouts.pop(name, None)
                self._evictions.setdefault(name, ("Deactivated", self._now))
            self._submit(name)
        self._stop()
        for name in late:
            if (workload := self._running(name)) is not None and workload.is_admitted:
                self._evict(name, "PodsReadyTimeout")
                self._feed.withdraw(workload.key)
                count = self._timeouts.get(name, (0, 0.0))[0]
                self._timeouts[name] = count + 1, self._now + BACKOFF * 2**count
        for name in self._known(step.get("checks", {})):
            self._check(name, step["checks"][name])

    def _check(self, name: str, state: str) -> None:
        workload = self._running(name)
        if workload is None or workload.admission is None:
            return
        spec = self._feed.state.snapshot.cluster_queue_of(workload).spec
        if not admission_checks_for_workload(spec, workload.admission):
            return
        if state == "Retry":
            self._evict(name, "AdmissionCheck")
        elif state == "Ready" and workload.admission.pending_checks:
            self._feed.checks_passed(workload.key, self._now)

    def _run_passes(self) -> bool:
        """Run passes until one starts nothing, then stop all jobs that must stop; return whether there were any."""
        while True:
            plan = self._feed.run_pass(self._now)
            for workload in plan.admitted:
                self._evictions.pop(workload.name, None)
            if not plan.admitted:
                return self._stop()

    def _stop(self) -> bool:
        """End the jobs of evicted workloads; return whether there were any."""
        stopping = self._feed.state.running_workloads.stopping
        evicted = [run.workload for run in self._feed.state.running.values() if run.workload.key in stopping]
        for workload in evicted:
            assert workload.eviction is not None
            self._evict(workload.name, workload.eviction.reason)
        return bool(evicted)

    def _evict(self, name: str, reason: str) -> None:
        self._evictions[name] = reason, self._now
        self._feed.evict(f"default/{name}", reason, self._now)

    def _submit(self, name: str) -> None:
        """Submit a workload or its new state, unless it waits for its backoff."""
        manifest = self._workloads[name]
        if self._timeouts.get(name, (0, 0.0))[1]:
            return
        if name in self._evictions:
            reason, at = self._evictions[name]
            at_text = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            condition = {"type": "Evicted", "status": "True", "reason": reason, "lastTransitionTime": at_text}
            manifest = {**manifest, "status": {"conditions": [condition]}}
        if self._running(name) is None:
            self._feed.submit(manifest)
        else:
            self._feed.update(manifest)

    def _running(self, name: str) -> Workload | None:
        run = self._feed.state.running.get(f"default/{name}")
        return None if run is None else run.workload

    def _known(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._workloads and name not in self._finished]

    def _state(self, name: str) -> Json:
        if name in self._finished:
            return {"s": "finished"}
        workload = self._running(name)
        if workload is None or workload.admission is None:
            reason = self._evictions.get(name, ("", 0.0))[0]
            return {"s": "pending", **({"evicted": reason} if reason else {})}
        pod_sets = [[pod_set.name, pod_set.pods, dict(pod_set.flavors)] for pod_set in workload.admission.pod_sets]
        status = "admitted" if workload.is_admitted else "reserved"
        return {"s": status, "q": workload.admission.cluster_queue, "p": pod_sets}


def name_of(manifest: Json) -> str:
    return str(manifest["metadata"]["name"])


@functools.cache
def recorded_cases() -> list[Json]:
    with gzip.open(RECORDING, "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.mark.parametrize("part", range(PARTS))
def test_outcomes_equal_those_of_kueue(part: int) -> None:
    for index, case in list(enumerate(recorded_cases()))[part::PARTS]:
        sequence = Sequence(case)
        for number, step in enumerate(case["steps"], start=1):
            sequence.apply(step)
            assert sequence.states() == step["after"], f"case {index}, step {number}"
