"""The live queue driven step by step on a model cluster, so that a test can kill it after any write.

The program watches, but this driver lists, so each observation is complete. It sends writes one after another.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.kube.resources import (
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    WORKLOADS,
)
from zonewise_scheduler.backfill.policies import BackfillPolicy
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.controller import ControllerOptions, QueueController
from zonewise_scheduler.controller.jobs.registry import adapters_by_kind
from zonewise_scheduler.controller.nodes.observed_objects import decode_node
from zonewise_scheduler.controller.observed_pod import decode_observed_pod
from zonewise_scheduler.controller.planning.configuration import ConfigurationObjects
from zonewise_scheduler.nodes.devices.allocated_claims import decode_claim
from zonewise_scheduler.nodes.devices.resource_slices import decode_slice
from zonewise_scheduler.quota.api.configuration import DEFAULT_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.backfill.recording.planner_feed import NodeFeed
    from zonewise_scheduler.backfill.types import Plan
    from zonewise_scheduler.controller.types import ObjectKey, Write
    from zonewise_scheduler.controller.writing.outcome import Outcome

Json = dict[str, Any]

KUEUE_CRDS = Path(__file__).parents[2] / "manifests" / "scheduler" / "components" / "kueue-crds"
MAX_STEPS = 1000
_LISTED = {WORKLOADS, RESOURCE_CLAIM_TEMPLATES}
"""Kinds whose listing matters even if it is empty."""


class Killed(Exception):
    """The controller was killed after a write."""


class LiveQueue:
    """A controller that leads, with the objects that it has observed."""

    def __init__(
        self,
        listed: Callable[[], dict[ObjectKey, Json]],
        send: Callable[[Write], Outcome],
        *,
        now: Callable[[], float],
        policy: BackfillPolicy = BackfillPolicy(),  # noqa: B008 -- immutable
        writes_left: int | None = None,
        record: Callable[[Json], object] | None = None,
        options: ControllerOptions = ControllerOptions(),  # noqa: B008 -- immutable
        unreadable: frozenset[Resource] = frozenset(),
        nodes: NodeFeed | None = None,
        run_pass: Callable[[PlannerFeed, float, int], Plan] = PlannerFeed.run_pass,
        report: Callable[[Write, Outcome], bool] = lambda _write, _outcome: False,
    ) -> None:
        """Set the functions that list all objects and send a write.

        `report` gets each outcome before the controller does, and returns whether to withhold it from the controller.

        `writes_left`: the number of writes after which step() raises Killed; None: never. `nodes`: None means that only
        quotas decide. `unreadable`: kinds that the controller may not list.
        """
        self.controller = QueueController(
            PlannerFeed(policy, DEFAULT_SETTINGS, nodes, record),
            adapters_by_kind(),
            ConfigurationObjects(),
            options,
            run_pass,
        )
        self.controller.lead(True)
        self.unreadable = unreadable
        self.writes: list[Write] = []
        self.outcomes: list[Outcome] = []
        self._listed = listed
        self._send = send
        self._report = report
        self._now = now
        self._observed: dict[ObjectKey, Json] = {}
        self._unanswered: list[Write] = []
        """Writes with an unknown outcome; the next step repeats them."""
        self._writes_left = writes_left

    def observe(self) -> bool:
        """Pass the changes since the last observation to the controller; return whether there are any."""
        objects = {key: obj for key, obj in self._listed().items() if key.resource not in self.unreadable}
        changed = [key for key, obj in objects.items() if self._observed.get(key) != obj]
        gone = [key for key in self._observed if key not in objects]
        for key in (*changed, *gone):
            self._show(key, objects.get(key))
        for resource in ({key.resource for key in (*objects, *gone)} | _LISTED) - self.unreadable:
            self.controller.end_listing(resource, sys.maxsize, self._now())
        self._observed = objects
        return bool(changed or gone)

    def _show(self, key: ObjectKey, obj: Json | None) -> None:
        raw = msgspec.Raw(msgspec.json.encode(obj))
        if key.resource == NODES:
            self.controller.observe_node(key.name, None if obj is None else decode_node(raw))
        elif key.resource == PODS:
            self.controller.observe_pod(key.namespace, key.name, None if obj is None else decode_observed_pod(raw))
        elif key.resource == RESOURCE_SLICES:
            self.controller.observe_slice(key.name, None if obj is None else decode_slice(raw))
        elif key.resource == RESOURCE_CLAIMS:
            self.controller.observe_claim(key.namespace, key.name, None if obj is None else decode_claim(raw))
        else:
            self.controller.observe(key, obj, self._now())

    def step(self) -> int:
        """Observe, run one step, and send its writes; return their number. Raises Killed."""
        self.observe()
        return self.act()

    def act(self) -> int:
        """Run one step on the earlier observations, and send its writes; return their number. Raises Killed."""
        unanswered, self._unanswered = self._unanswered, []
        writes = [*unanswered, *self.controller.step(self._now())]
        for write in writes:
            if self._writes_left == 0:
                raise Killed
            outcome = self._send(write)
            if outcome.result == "unknown":
                self._unanswered.append(write)
                continue
            self.writes.append(write)
            self.outcomes.append(outcome)
            if self._writes_left is not None:
                self._writes_left -= 1
            if not self._report(write, outcome):
                self.controller.end_write(write, outcome, self._now())
        return len(writes)

    def settle(self, others: Callable[[], bool] = bool) -> None:
        """Repeat steps until neither the controller nor `others` change anything; `others` returns whether it did."""
        for _ in range(MAX_STEPS):
            written = self.step()
            if not others() and not written and not self.observe():
                return
        raise AssertionError(f"not settled: {[(write.purpose, str(write.key)) for write in self.writes[-6:]]}")

    @property
    def purposes(self) -> list[str]:
        """The purposes of the writes so far, each with the kind of object."""
        return [f"{write.purpose} [{write.key.resource.kind}]" for write in self.writes]
