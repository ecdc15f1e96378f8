"""Labels of pods, for exclusions by label. They come from the API server, since PodResources has no labels."""

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
"""Seconds for which labels are cached. Labels of a running pod change rarely. A pod of a StatefulSet returns under its
old name with new labels."""
RETRY_SECONDS = 30.0
"""Seconds until the next request for a pod whose labels could not be read. A server that did not respond gets the next
request after the same time. The loop waits for each response, and must not wait once for each pod."""
_MOST = 1024  # maximum number of pods in the cache; a node has 110 by default, and 500 if the limit is raised

_UNKNOWN: Mapping[str, str] = {}


class PodClient(Protocol):
    """The part of a zonewise.kube Client that is needed."""

    def get(self, resource: Resource, name: str, *, namespace: str | None = None) -> dict[str, Any]:
        """Return an object."""
        ...


class PodLabels:
    """Requests labels once for each pod and caches them, beyond CACHE_SECONDS if no newer ones can be read.

    A pod whose labels were never read has no labels here, and so is counted.
    """

    def __init__(self, client: PodClient, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._cache: dict[tuple[str, str], tuple[float, Mapping[str, str]]] = {}
        self._unavailable_until = clock()

    def get(self, namespace: str, name: str) -> Mapping[str, str]:
        """Return the labels of a pod."""
        cached = self._cache.get((namespace, name))
        if cached is not None and self._clock() < cached[0]:
            return cached[1]
        if len(self._cache) >= _MOST:
            self._cache.clear()
        labels, seconds = self._fetch(namespace, name, _UNKNOWN if cached is None else cached[1])
        self._cache[namespace, name] = (self._clock() + seconds, labels)
        return labels

    def _fetch(self, namespace: str, name: str, before: Mapping[str, str]) -> tuple[Mapping[str, str], float]:
        """Return the labels, and the seconds for which they are valid."""
        if self._clock() < self._unavailable_until:
            return before, self._unavailable_until - self._clock()
        try:
            return self._client.get(PODS, name, namespace=namespace)["metadata"].get("labels") or {}, CACHE_SECONDS
        except NotFound:  # a static pod without its mirror pod, or a pod that was just deleted
            return _UNKNOWN, RETRY_SECONDS
        except KubeError as error:
            if isinstance(error, TransportError):
                self._unavailable_until = self._clock() + RETRY_SECONDS
            log.warning("the labels of pod %s/%s cannot be read and are assumed to be %s: %s", namespace, name,
                        "before" if before else "none", error)  # fmt: skip
            return before, RETRY_SECONDS


def pod_exclusion(exclusions: Exclusions, labels: PodLabels | None) -> Callable[[PodResources], bool]:
    """Return the predicate for excluded pods; labels are requested only if namespace and name match."""

    def pod_labels(pod: PodResources) -> Mapping[str, str]:
        return labels.get(pod.namespace, pod.name) if labels is not None else _UNKNOWN

    def matches(pattern: PodPattern, pod: PodResources) -> bool:
        by_name = pattern._replace(labels=()).matches(pod.namespace, pod.name, _UNKNOWN)
        return by_name and (not pattern.labels or pattern.matches(pod.namespace, pod.name, pod_labels(pod)))

    return lambda pod: any(matches(pattern, pod) for pattern in exclusions.pods)
