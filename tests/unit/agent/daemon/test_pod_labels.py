"""Which pods are excluded, and how often their labels are requested from the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import Clock
from zonewise.daemon.exclusions import Exclusions, PodPattern
from zonewise.daemon.pod_labels import CACHE_SECONDS, RETRY_SECONDS, PodLabels, pod_exclusion
from zonewise.kubelet.types import PodResources
from zonewise_common.kube.errors import NotFound, TransportError

if TYPE_CHECKING:
    from zonewise_common.kube.resources import Resource

INFRA = Exclusions(pods=(PodPattern("kube-*", labels=(("tier", "infra"),)), PodPattern("logs")))


class Pods:
    """The pods of an API server: their labels by namespace and name, or an error."""

    def __init__(self) -> None:
        self.labels: dict[tuple[str, str], dict[str, str] | Exception] = {}
        self.requests = 0

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        self.requests += 1
        labels = self.labels[namespace or "", name]
        if isinstance(labels, Exception):
            raise labels
        return {"metadata": {"labels": labels} if labels else {}}


def test_patterns() -> None:
    """A pattern with only a namespace excludes all its pods; one with labels excludes only pods that have them."""
    pods = Pods()
    pods.labels = {("kube-system", "a"): {"tier": "infra"}, ("kube-system", "b"): {"tier": "x"}, ("kube-x", "c"): {}}
    excluded = pod_exclusion(INFRA, PodLabels(pods))
    names = [("kube-system", "a"), ("kube-system", "b"), ("kube-x", "c"), ("logs", "d"), ("default", "e")]
    assert [excluded(PodResources(*name)) for name in names] == [True, False, False, True, False]
    assert pods.requests == 3  # none for pods that no pattern can match


def test_without_an_api_server() -> None:
    """If labels cannot be requested, patterns without labels still apply; the others exclude no pod."""
    excluded = pod_exclusion(INFRA, None)
    assert [excluded(PodResources("kube-system", "a")), excluded(PodResources("logs", "d"))] == [False, True]


def test_labels_are_cached() -> None:
    """Labels of a pod are requested once per five minutes."""
    pods, clock = Pods(), Clock()
    pods.labels = {("a", "b"): {"c": "d"}}
    labels = PodLabels(pods, clock=clock)
    assert [labels.get("a", "b") for _ in range(3)] == [{"c": "d"}] * 3
    assert pods.requests == 1
    clock.advance(CACHE_SECONDS)
    labels.get("a", "b")
    assert pods.requests == 2


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "no pod"), TransportError("refused")])
def test_unknown_pods_are_counted(error: Exception) -> None:
    """A pod with unreadable labels counts as unlabelled; its labels are requested again soon, not at every scan."""
    pods, clock = Pods(), Clock()
    pods.labels = {("a", "b"): error}
    labels = PodLabels(pods, clock=clock)
    assert [labels.get("a", "b") for _ in range(3)] == [{}] * 3
    assert pods.requests == 1
    clock.advance(RETRY_SECONDS)
    pods.labels = {("a", "b"): {"c": "d"}}
    assert labels.get("a", "b") == {"c": "d"}


def test_cached_labels_outlive_an_outage() -> None:
    """A pod that was excluded remains excluded during an outage: unknown labels are not the same as no labels."""
    pods, clock = Pods(), Clock()
    pods.labels = {("a", "b"): {"c": "d"}}
    labels = PodLabels(pods, clock=clock)
    labels.get("a", "b")
    clock.advance(CACHE_SECONDS)
    pods.labels = {("a", "b"): TransportError("refused")}
    assert labels.get("a", "b") == {"c": "d"}
    clock.advance(RETRY_SECONDS)
    pods.labels = {("a", "b"): NotFound(404, "NotFound", "no pod")}
    assert labels.get("a", "b") == {}


def test_an_unavailable_server_gets_one_request_for_all_pods() -> None:
    """Each request may last until its timeout, and the loop waits for it."""
    pods, clock = Pods(), Clock()
    names = [str(number) for number in range(50)]
    pods.labels = {("a", name): TransportError("timed out") for name in names}
    labels = PodLabels(pods, clock=clock)
    assert [labels.get("a", name) for name in names] == [{}] * 50
    assert pods.requests == 1
    clock.advance(RETRY_SECONDS)
    pods.labels = {("a", name): {"c": name} for name in names}
    assert [labels.get("a", name) for name in names] == [{"c": name} for name in names]


def test_the_cache_is_bounded() -> None:
    """The number of cached pods is limited to the pods that a node can hold, however many start and end."""
    pods = Pods()
    labels = PodLabels(pods)
    for number in range(5000):
        pods.labels["a", str(number)] = {"n": str(number)}
        assert labels.get("a", str(number)) == {"n": str(number)}
    pods.labels["a", "4999"] = {}
    assert labels.get("a", "4999") == {"n": "4999"}
