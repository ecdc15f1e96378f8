"""The pod fingerprint: a short text for a set of pods. With it, a scheduler compares a report's pods with its own.

This is version v001 of github.com/k8stopologyawareschedwg/podfingerprint. The order of pods does not matter, and two
pods of one name count twice. The fingerprint ignores UIDs: a pod and its successor of the same name are equal.

A search for the pods behind a fingerprint tries many sets of the same pods:

- parse_fingerprint() returns the number to match.
- pod_hash() returns the hash of each pod, which the search computes once.
- fingerprint_number() returns the number of a set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_START = "pfp0v001"
"""The name and version of the algorithm."""
_DIGITS = frozenset("0123456789abcdef")


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods, each as (namespace, name)."""
    hashes = sorted(pod_hash(namespace, name) for namespace, name in pods)
    return f"{_START}{fingerprint_number(map(pack_hash, hashes)):016x}"


def parse_fingerprint(text: str) -> int:
    """Return the number of a fingerprint; raise ValueError if the text is not a fingerprint of this version."""
    digits = text.removeprefix(_START)
    if not text.startswith(_START) or len(digits) != 16 or not _DIGITS.issuperset(digits):
        raise ValueError(f"not a pod fingerprint of version {_START}: {text[:80]!r}")
    return int(digits, 16)


def pod_hash(namespace: str, name: str) -> int:
    """Return the hash of one pod."""
    return xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode()))


def pack_hash(pod: int) -> bytes:
    """Return the hash of one pod as the bytes of a fingerprint's input."""
    return pod.to_bytes(8, "little")


def unpack_hashes(packed: bytes) -> Iterator[int]:
    """Yield the hashes of pods from their concatenated bytes."""
    return (int.from_bytes(packed[start : start + 8], "little") for start in range(0, len(packed), 8))


def fingerprint_number(ascending: Iterable[bytes]) -> int:
    """Return the fingerprint number of pods from their packed hashes, in ascending order of the hashes."""
    return xxh64_intdigest(b"".join(ascending))
