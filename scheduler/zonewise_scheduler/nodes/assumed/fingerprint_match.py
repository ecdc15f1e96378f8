"""The pods that a report covers: the set of known pods that has the report's fingerprint."""

from __future__ import annotations

from itertools import combinations, compress, islice
from typing import TYPE_CHECKING

from zonewise_common.nrt.podfingerprint import fingerprint_number, pack_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.nodes.assumed.pod_state import PodState

_MAX_CANDIDATES = 1 << 10
"""A few milliseconds; enough for all subsets of ten pods."""


def match_fingerprint(number: int, pods: Sequence[PodState]) -> frozenset[str] | None:
    """Return the UIDs of the pods of a fingerprint, given as its number; None where no likely set of pods has it.

    `pods` are in the order in which the ledger added them. Of several pods of one name, all but one are removed, and
    the older ones match first: a late report may still include a removed pod, and a new pod must stay assumed until a
    report surely includes it.
    """
    ascending = sorted(pods, key=lambda pod: pod.hash)
    hashes = [pack_hash(pod.hash) for pod in ascending]
    for mask in islice(_candidate_masks(ascending, pods), _MAX_CANDIDATES):
        if fingerprint_number(compress(hashes, mask)) == number:
            return _oldest_uids(list(compress(ascending, mask)), pods)
    return None


def _candidate_masks(ascending: Sequence[PodState], pods: Iterable[PodState]) -> Iterator[bytearray]:
    """Yield likely sets, the likeliest first; the caller must use each one before it gets the next.

    A report lags behind: it may lack the last pods that were added, and include pods that were removed. Then follow all
    sets by their distance from the set of the living pods.
    """
    index_of = {pod.uid: index for index, pod in enumerate(ascending)}
    covered = [index_of[pod.uid] for pod in pods if pod.covered and pod.removed_at is None]
    uncovered = [index_of[pod.uid] for pod in pods if not pod.covered and pod.removed_at is None]
    removed = [index_of[pod.uid] for pod in pods if pod.removed_at is not None]
    alive = bytearray(len(ascending))
    for index in (*covered, *uncovered):
        alive[index] = 1
    for late_removed in ((), removed) if removed else ((),):
        mask = alive.copy()
        for index in late_removed:
            mask[index] = 1
        yield mask
        for index in reversed(uncovered):
            mask[index] = 0
            yield mask
    yield from _flipped_masks(alive, [*reversed(uncovered), *removed, *reversed(covered)])


def _flipped_masks(alive: bytearray, order: Sequence[int]) -> Iterator[bytearray]:
    for count in range(1, len(order) + 1):
        for flipped in combinations(order, count):
            mask = alive.copy()
            for index in flipped:
                mask[index] ^= 1
            yield mask


def _oldest_uids(matched: Sequence[PodState], pods: Iterable[PodState]) -> frozenset[str]:
    counts: dict[int, int] = {}
    for pod in matched:
        counts[pod.hash] = counts.get(pod.hash, 0) + 1
    uids: list[str] = []
    for pod in pods:
        if counts.get(pod.hash, 0):
            counts[pod.hash] -= 1
            uids.append(pod.uid)
    return frozenset(uids)
