"""Partial admission: the most pods with which a workload can start (podset_reducer.go, KEP-420)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from zonewise_scheduler.quota.api.workload_types import PodSet

R = TypeVar("R")


def search_pod_counts(pod_sets: Sequence[PodSet], assign_counts: Callable[[tuple[int, ...]], R | None]) -> R | None:
    """Return what `attempt` returns for the largest counts of pods, by pod set, with which it is not None.

    All pod sets shrink together, each by the same part of the way from its count to its minimum. The search halves, so
    it takes for granted that what can be had with some pods can be had with fewer. None where no pod set may shrink.
    """
    spare = [one.pods - (one.pods if one.min_pods is None else one.min_pods) for one in pod_sets]
    steps = sum(spare)
    if steps == 0:
        return None
    best: R | None = None
    low, high = 0, steps + 1
    while low < high:
        middle = (low + high) // 2
        counts = (one.pods - part * middle // steps for one, part in zip(pod_sets, spare, strict=True))
        found = assign_counts(tuple(counts))
        if found is None:
            low = middle + 1
        else:
            best, high = found, middle
    return best
