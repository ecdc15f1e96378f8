"""The pod fingerprint: a short text for a set of pods, by which a scheduler sees whether a report is of those it knows.

This is version v001 of github.com/k8stopologyawareschedwg/podfingerprint. The order of pods does not matter, and two
pods of one name count twice; there is no UID in it, so that a pod is not told from its successor of the same name.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "pfp0"
VERSION = "v001"
_LENGTH = len(PREFIX) + len(VERSION) + 16


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of pods given as (namespace, name)."""
    hashes = sorted(xxh64_intdigest(name.encode(), xxh64_intdigest(namespace.encode())) for namespace, name in pods)
    return f"{PREFIX}{VERSION}{xxh64_intdigest(struct.pack(f'<{len(hashes)}Q', *hashes)):016x}"


def check(sign: str, pods: Iterable[tuple[str, str]]) -> bool:
    """Tell whether a fingerprint is that of the pods; raise ValueError for a text that is none of this version."""
    if len(sign) != _LENGTH or not sign.startswith(PREFIX):
        raise ValueError(f"not a pod fingerprint: {sign[:80]!r}")
    if not sign.startswith(VERSION, len(PREFIX)):
        raise ValueError(f"not a pod fingerprint of version {VERSION}: {sign!r}")
    return sign == fingerprint(pods)
