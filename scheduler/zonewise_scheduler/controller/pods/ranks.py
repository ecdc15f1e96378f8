"""Ranks of the pods of a pod set, read from their index labels (topology_ungater.go readRanksForLabels).

    pods of               index label                               rank
    an Indexed Job        batch.kubernetes.io/job-completion-index  the index
    a JobSet's jobs       the same, and jobset.sigs.k8s.io/job-index index + job index x pods of a job
    a LeaderWorkerSet     leaderworkerset.sigs.k8s.io/worker-index  the index, less the leader of the pod set group

Neighbours by rank are neighbours in the topology, because an assignment lists its domains in the order of ranks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_scheduler.controller.pods.pod_names import WORKER_INDEX_LABEL

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from zonewise_scheduler.controller.pods.managed_pod import ManagedPod
    from zonewise_scheduler.quota.api.job_pod_sets import PodIndexes

_MAX_DIGITS = 9


class RankLabels(NamedTuple):
    """The labels that show the ranks of a pod set's pods."""

    indexes: PodIndexes
    pods: int
    """Number of pods in the pod set."""
    offset: int = 0
    """Number of pods of other pod sets in the same group that have lower indexes: the leader."""


def read_ranks(pods: Iterable[ManagedPod], labels: RankLabels) -> Mapping[str, int] | None:
    """Return the rank of each pod by UID; None: a pod has no rank, or one beyond the end of the pod set."""
    if not labels.indexes.pod_index_label:
        return None
    ranks: dict[str, int] = {}
    for pod in pods:
        rank = _rank(pod, labels)
        if rank is None:
            return None
        ranks[pod.uid] = rank
    return ranks


def _rank(pod: ManagedPod, labels: RankLabels) -> int | None:
    indexes = labels.indexes
    index, group = _number(pod.labels.get(indexes.pod_index_label, "")), 0
    offset = labels.offset if indexes.pod_index_label == WORKER_INDEX_LABEL else 0
    if pod.index_offset:
        more = _number(pod.index_offset)
        index, offset = (None if more is None else index), offset + (more or 0)
    if index is None:
        return None
    if indexes.sub_group_index_label:
        size = labels.pods // (indexes.sub_group_count or 0) if indexes.sub_group_count else 0
        group_index = _number(pod.labels.get(indexes.sub_group_index_label, ""))
        if group_index is None or index >= size:
            return None
        group = group_index * size
    rank = index + group - offset
    return rank if 0 <= rank < labels.pods else None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS else None
