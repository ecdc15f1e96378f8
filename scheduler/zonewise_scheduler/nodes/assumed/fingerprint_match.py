"""Which pods a report covers: the set that has its fingerprint, searched among the pods that it may be about."""

from __future__ import annotations

from itertools import combinations, compress, islice
from typing import TYPE_CHECKING

from zonewise_common.nrt.podfingerprint import fingerprint_number, pack_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.nodes.assumed.pod_state import PodState

_TRIES = 1 << 10
"""A few milliseconds; all the sets in which ten pods may be or not."""


def match_fingerprint(number: int, pods: Sequence[PodState]) -> frozenset[str] | None:
    """Return the UIDs of the pods that a fingerprint, by its number, is of; None where no likely set of them has it.

    `pods` are in the order in which the ledger heard of them. Of several pods of one name, of which all but one are
    gone, the older ones are taken first: what is not there any more may be in a report that is late, and what is new
    must stay charged until it surely is in one.
    """
    ascending = sorted(pods, key=lambda pod: pod.hash)
    hashes = [pack_hash(pod.hash) for pod in ascending]
    for mask in islice(_masks(ascending, pods), _TRIES):
        if fingerprint_number(compress(hashes, mask)) == number:
            return _oldest_first(list(compress(ascending, mask)), pods)
    return None


def _masks(ascending: Sequence[PodState], pods: Iterable[PodState]) -> Iterator[bytearray]:
    """Generate likely sets, the likeliest first; each is to be used before the next is asked for.

    A report is behind by the last pods that came, and it may still have those that left; then, pod by pod, whatever is
    the least away from all that live.
    """
    place = {pod.uid: index for index, pod in enumerate(ascending)}
    staying = [place[pod.uid] for pod in pods if pod.covered and pod.removed_at is None]
    coming = [place[pod.uid] for pod in pods if not pod.covered and pod.removed_at is None]
    leaving = [place[pod.uid] for pod in pods if pod.removed_at is not None]
    alive = bytearray(len(ascending))
    for index in (*staying, *coming):
        alive[index] = 1
    for late in ((), leaving) if leaving else ((),):
        mask = alive.copy()
        for index in late:
            mask[index] = 1
        yield mask
        for index in reversed(coming):
            mask[index] = 0
            yield mask
    yield from _departures(alive, [*reversed(coming), *leaving, *reversed(staying)])


def _departures(alive: bytearray, order: Sequence[int]) -> Iterator[bytearray]:
    for count in range(1, len(order) + 1):
        for turned in combinations(order, count):
            mask = alive.copy()
            for index in turned:
                mask[index] ^= 1
            yield mask


def _oldest_first(found: Sequence[PodState], pods: Iterable[PodState]) -> frozenset[str]:
    left: dict[int, int] = {}
    for pod in found:
        left[pod.hash] = left.get(pod.hash, 0) + 1
    chosen: list[str] = []
    for pod in pods:
        if left.get(pod.hash, 0):
            left[pod.hash] -= 1
            chosen.append(pod.uid)
    return frozenset(chosen)
