"""The condition ManagedByKueue of ClusterQueues. It is true while Kueue manages them, and absent otherwise.

Kueue preserves conditions of other types (pkg/controller/core/clusterqueue_controller.go updateCqStatusIfChanged).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import KubeError
from zonewise_common.kube.resources import CLUSTER_QUEUES
from zonewise_scheduler.controller.workloads.conditions import Condition, conditions_of, find_condition, with_conditions

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.client import Client
    from zonewise_scheduler.controller.types import Json

log = logging.getLogger(__name__)

MANAGED_BY_KUEUE = "ManagedByKueue"
REASON = "KueueLeads"
PERIOD = 60.0
"""Seconds between two checks of the ClusterQueues, for new ones and for writes that have failed."""


def condition_patch(cluster_queue: Json, claim: str, now: float) -> Json | None:
    """Return the merge patch of the status that makes the condition show a claim; None: it shows it already.

    `claim`: why Kueue manages the queue; "": it does not. Invalid objects raise no error.
    """
    observed = find_condition(cluster_queue, MANAGED_BY_KUEUE)
    if claim:
        if observed is not None and (observed.get("status"), observed.get("message")) == ("True", claim):
            return None
        conditions = with_conditions(cluster_queue, [Condition(MANAGED_BY_KUEUE, True, REASON, claim)], now)
    elif observed is None:
        return None
    else:
        conditions = [dict(entry) for entry in conditions_of(cluster_queue) if entry.get("type") != MANAGED_BY_KUEUE]
    version = cluster_queue["metadata"].get("resourceVersion")
    return {"metadata": {"resourceVersion": version}, "status": {"conditions": conditions}}


class ManagedConditions:
    """Writes the condition once per period, and at once if a claim begins or ends."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        """`clock` returns seconds since 1970."""
        self._client = client
        self._clock = clock
        self._published: str | None = None
        self._next_at = 0.0

    def publish(self, claim: str) -> None:
        """Write the condition if that is due. Errors are logged, and failed writes repeated."""
        now = self._clock()
        if claim == self._published and (not claim or now < self._next_at):
            return
        try:
            self._write(claim, now)
            self._published = claim
        except KubeError as error:
            log.info("the condition %s of ClusterQueues: %s", MANAGED_BY_KUEUE, error)
        self._next_at = now + PERIOD

    def _write(self, claim: str, now: float) -> None:
        for queue in self._client.list(CLUSTER_QUEUES).items:
            patch = condition_patch(queue, claim, now)
            if patch is not None:
                name = queue["metadata"]["name"]
                self._client.patch(CLUSTER_QUEUES, name, patch, kind=PatchKind.MERGE, subresource="status")
