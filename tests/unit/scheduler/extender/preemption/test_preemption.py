"""Preemption depends on whether the API server lets the extender read PodDisruptionBudgets."""

from __future__ import annotations

import weakref
from contextlib import closing
from typing import Any

from support.preemption_clusters import SIX, fragmented
from support.waiting import eventually
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import Forbidden
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.extender.fallback_policy import FallbackPolicy
from zonewise_scheduler.extender.metrics import ExtenderMetrics
from zonewise_scheduler.extender.preemption.preemption import Preemption
from zonewise_scheduler.extender.types import ProposedVictims


class Names(list[str]):
    """A list of candidate names that supports weak references."""


class DeniedClient(Client):
    """A client without the permission to list anything, until `denied` is unset."""

    denied = True

    def list(self, *args: Any, **kwargs: Any) -> Any:
        if self.denied:
            raise Forbidden(403, "Forbidden", "no right to list poddisruptionbudgets")
        return super().list(*args, **kwargs)


def test_budgets_that_may_not_be_read() -> None:
    """No pod is evicted while budgets are unknown, and a metric shows it. A server without the kind has no budgets."""
    cluster, metrics = fragmented(), ExtenderMetrics()
    preemptor = cluster.wait("high", SIX)
    proposed = {"n": ProposedVictims(("uid-a",), 0)}

    def forbidden() -> float | None:
        return metrics.registry.get_sample_value("zonewise_disruption_budgets_forbidden")

    with ApiServer() as server, closing(DeniedClient(Config.from_url(server.url))) as client:
        preemption = Preemption(
            client, cluster.cache.state, FallbackPolicy(), cluster.clock, metrics, probe_period=0.05
        )
        with preemption:
            eventually(lambda: forbidden() == 1)
            assert preemption.preempt(preemptor, proposed) == {}
            offered = [Names("n")]
            names = weakref.ref(offered[0])
            preemption.offer(preemptor, offered.pop)
            eventually(lambda: names() is None)  # an offer that cannot be met is dropped
            client.denied = False
            eventually(lambda: forbidden() == 0)
            assert preemption.preempt(preemptor, proposed) == {"n": ("uid-b",)}


def test_a_pod_that_is_deleted_before_the_verb_is_called() -> None:
    """Nothing is remembered of the pod."""
    cluster = fragmented()
    proposed = {"n": ProposedVictims(("uid-a",), 0)}
    preemptors = [cluster.wait(name, SIX) for name in ("waiting", "deleted")]
    cluster.delete("deleted")
    with ApiServer() as server, closing(Client(Config.from_url(server.url))) as client:
        preemption = Preemption(
            client, cluster.cache.state, FallbackPolicy(), cluster.clock, ExtenderMetrics(), probe_period=0.05
        )
        with preemption:
            for preemptor in preemptors:
                eventually(lambda preemptor=preemptor: bool(preemption.preempt(preemptor, proposed)))
    nominations = cluster.cache.state.nominated.nominations
    assert nominations.proposed("uid-waiting", "n") == {"uid-b"}
    assert nominations.proposed("uid-deleted", "n") == frozenset()
