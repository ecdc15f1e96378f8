"""The labels of pods, for exclusions by label: PodResources does not tell them, the API server does."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Any, Protocol

from zonewise_common.kube.errors import KubeError, NotFound, TransportError
from zonewise_common.kube.resources import PODS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from zonewise.daemon.exclusions import Exclusions, PodPattern
    from zonewise.kubelet.types import PodResources
    from zonewise_common.kube.resources import Resource

log = logging.getLogger(__name__)

CACHE_SECONDS = 300.0
"""Seconds for which labels are taken as they were: those of a running pod change rarely, and a pod of a StatefulSet
comes again under its old name with new ones."""
RETRY_SECONDS = 30.0
"""Seconds after which a pod is asked about again that the API server could not tell of, and after which a server is
asked again that did not answer at all: the loop waits for each answer, and must not do so for each pod."""
_MOST = 1024  # pods kept; a node has 110 by default, and 500 where it is pushed

_UNKNOWN: Mapping[str, str] = {}


class PodClient(Protocol):
    """What of a zonewise_common.kube Client is needed."""

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return an object."""
        ...


class PodLabels:
    """Asks once a pod, and keeps the answer, beyond its time where there is none better.

    A pod whose labels nobody ever told has none, and so is counted.
    """

    def __init__(self, client: PodClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._kept: dict[tuple[str, str], tuple[float, Mapping[str, str]]] = {}
        self._away_until = clock()

    def get(self, namespace: str, name: str) -> Mapping[str, str]:
        """Return the labels of a pod."""
        kept = self._kept.get((namespace, name))
        if kept is not None and self._clock() < kept[0]:
            return kept[1]
        if len(self._kept) >= _MOST:
            self._kept.clear()
        labels, seconds = self._ask(namespace, name, _UNKNOWN if kept is None else kept[1])
        self._kept[namespace, name] = (self._clock() + seconds, labels)
        return labels

    def _ask(self, namespace: str, name: str, before: Mapping[str, str]) -> tuple[Mapping[str, str], float]:
        """Return the labels, and for how many seconds to take them so."""
        if self._clock() < self._away_until:
            return before, self._away_until - self._clock()
        try:
            return self._client.get(PODS, name, namespace=namespace)["metadata"].get("labels") or {}, CACHE_SECONDS
        except NotFound:  # a static pod without its mirror, or one that has just gone
            return _UNKNOWN, RETRY_SECONDS
        except KubeError as error:
            if isinstance(error, TransportError):
                self._away_until = self._clock() + RETRY_SECONDS
            log.warning("the labels of pod %s/%s are not told, and taken as %s: %s", namespace, name,
                        "before" if before else "none", error)  # fmt: skip
            return before, RETRY_SECONDS


def pod_exclusion(exclusions: Exclusions, labels: PodLabels | None) -> Callable[[PodResources], bool]:
    """Return the question whether a pod is excluded; labels are asked for only where namespace and name fit."""

    def told(pod: PodResources) -> Mapping[str, str]:
        return labels.get(pod.namespace, pod.name) if labels is not None else _UNKNOWN

    def is_one(pattern: PodPattern, pod: PodResources) -> bool:
        by_name = pattern._replace(labels=()).matches(pod.namespace, pod.name, _UNKNOWN)
        return by_name and (not pattern.labels or pattern.matches(pod.namespace, pod.name, told(pod)))

    return lambda pod: any(is_one(pattern, pod) for pattern in exclusions.pods)
