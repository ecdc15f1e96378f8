"""Pod fingerprints as numbers, from the hashes of single pods: what zonewise.topology.fingerprint does with names.

A search for the pods behind a fingerprint tries many sets of the same pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

from zonewise.topology.fingerprint import PREFIX, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable

_START = PREFIX + VERSION


def sign_of_pod(namespace: str, name: str) -> int:
    """Return the hash of one pod."""
    return xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode()))


def sign_of_pods(ascending: Iterable[bytes]) -> int:
    """Return the fingerprint's number for pods, by the packed hashes of each in ascending order of their numbers."""
    return xxh64_intdigest(b"".join(ascending))


def packed(sign: int) -> bytes:
    """Return a pod's hash as it enters a fingerprint."""
    return sign.to_bytes(8, "little")


def sign_of_text(text: str) -> int | None:
    """Return the number of a fingerprint; None for a text that is none of the version that we know."""
    digits = text.removeprefix(_START)
    if len(digits) != 16 or len(text) != 16 + len(_START):
        return None
    try:
        return int(digits, 16)
    except ValueError:
        return None
