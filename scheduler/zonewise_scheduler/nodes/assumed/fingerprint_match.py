"""Finds the pods that a report covers: the set of known pods with the report's fingerprint.

A set is represented by the text of its fingerprint: the packed hashes of its pods, ascending. Cutting this text yields
a neighbour of a set, so a candidate costs less than a microsecond.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from itertools import chain, combinations, islice
from typing import TYPE_CHECKING

from zonewise_common.nrt.podfingerprint import fingerprint_number, pack_hash, unpack_hashes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_scheduler.nodes.assumed.pod_state import PodState

MAX_FLIPPED = 1 << 9
"""Sets that a search tries after the likeliest ones: they take less than a millisecond, and cover all subsets of nine
pods."""
_MIN_FLIPPED = 1 << 5
_HASH_BYTES = 8


class FingerprintMatcher:
    """The searches for the fingerprints of one node's reports, by one method.

    A fingerprint may match no set of known pods: a kubelet also lists pods that the API does not have. So equal inputs
    are not searched again, and each failure in a row halves the effort of the next search. When a fingerprint matches
    again, it matches one of the likeliest sets, which every search tries.
    """

    __slots__ = ("_failed_inputs", "_flipped")

    def __init__(self) -> None:
        self._flipped = MAX_FLIPPED
        self._failed_inputs: tuple[object, ...] | None = None

    def match(self, number: int, pods: Sequence[PodState]) -> frozenset[str] | None:
        """Return the result of match_fingerprint()."""
        inputs = (number, *((pod.hash, pod.covered, pod.removed_at is None) for pod in pods))
        if inputs == self._failed_inputs:
            return None
        matched = match_fingerprint(number, pods, self._flipped)
        if matched is None:
            self._failed_inputs = inputs
            self._flipped = max(_MIN_FLIPPED, self._flipped // 2)
        else:
            self._failed_inputs, self._flipped = None, MAX_FLIPPED
        return matched


def match_fingerprint(number: int, pods: Sequence[PodState], flipped: int = MAX_FLIPPED) -> frozenset[str] | None:
    """Return the UIDs of the pods of a fingerprint, given as a number, or None if no likely set of pods has it.

    `pods` are in the order in which the ledger added them, except removed ones whose successor is surely reported. Of
    several pods with one name, all but one are removed, and the older ones match first. A late report may still include
    a removed pod, and a new pod must remain assumed until a report surely includes it. `flipped` is the number of sets
    to try after the likeliest ones.
    """
    for text in chain(_likely_texts(pods), islice(_flipped_texts(pods), flipped)):
        if fingerprint_number((text,)) == number:
            return _oldest_uids(text, pods)
    return None


def _likely_texts(pods: Sequence[PodState]) -> Iterator[bytes]:
    """Yield the likeliest sets: a report may lack the pods added last, and include pods that were removed.

    It includes all removed pods, or only those that the report before covered, which may also be the same report.
    """
    covered, uncovered, removed = _hashes(pods)
    removed_covered = [pod.hash for pod in pods if pod.covered and pod.removed_at is not None]
    for late_removed in dict.fromkeys(((), tuple(removed_covered), tuple(removed))):
        present = sorted((*covered, *uncovered, *late_removed))
        text = b"".join(map(pack_hash, present))
        yield text
        for pod in reversed(uncovered):
            index = bisect_left(present, pod)
            del present[index]
            text = _without(text, index)
            yield text


def _hashes(pods: Sequence[PodState]) -> tuple[list[int], list[int], list[int]]:
    """Return the hashes of covered, uncovered and removed pods."""
    covered = [pod.hash for pod in pods if pod.covered and pod.removed_at is None]
    uncovered = [pod.hash for pod in pods if not pod.covered and pod.removed_at is None]
    return covered, uncovered, [pod.hash for pod in pods if pod.removed_at is not None]


def _flipped_texts(pods: Sequence[PodState]) -> Iterator[bytes]:
    """Yield the sets that differ from the living pods in one pod, in two pods, and so on.

    A flip is the hash of a pod, and whether the pod is alive. The flips of a set are applied from the highest hash to
    the lowest. Each changes the text only behind its own index, so the indices of the other flips remain valid.
    """
    covered, uncovered, removed = _hashes(pods)
    flips = [(pod, True) for pod in reversed(uncovered)]
    flips += [(pod, False) for pod in removed]
    flips += [(pod, True) for pod in reversed(covered)]
    alive = sorted((*covered, *uncovered))
    base = b"".join(map(pack_hash, alive))
    indexed = [(pod, is_alive, bisect_left(alive, pod), pack_hash(pod)) for pod, is_alive in flips]
    for count in range(1, len(indexed) + 1):
        for combination in combinations(indexed, count):
            text = base
            for _, is_alive, index, packed in sorted(combination, reverse=True):
                text = _without(text, index) if is_alive else _with(text, index, packed)
            yield text


def _without(text: bytes, index: int) -> bytes:
    start = index * _HASH_BYTES
    return text[:start] + text[start + _HASH_BYTES :]


def _with(text: bytes, index: int, packed: bytes) -> bytes:
    start = index * _HASH_BYTES
    return text[:start] + packed + text[start:]


def _oldest_uids(text: bytes, pods: Iterable[PodState]) -> frozenset[str]:
    counts = Counter(unpack_hashes(text))
    uids: list[str] = []
    for pod in pods:
        if counts[pod.hash]:
            counts[pod.hash] -= 1
            uids.append(pod.uid)
    return frozenset(uids)
