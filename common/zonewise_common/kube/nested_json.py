"""JSON that is nested more deeply than a decoder permits.

An API server stores objects of up to 10,000 levels, if the schema of their kind permits any field (sigs.k8s.io/json
internal/golang/encoding/json/scanner.go maxNestingDepth). Decoders fail at about 1,000 levels. Such an object must not
hide the other objects of its kind.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, TypeVar

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

T = TypeVar("T")
Text = TypeVar("Text", bytes, msgspec.Raw)

MAX_DEPTH = 200
"""Levels of a value that remains. The objects of Kubernetes have about 20."""
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
"""A string, or a bracket outside of strings."""


def decode_nested(decode: Callable[[Text], T], text: Text) -> T:
    """Return the decoded JSON. If it is nested too deeply for the decoder, values below MAX_DEPTH levels are null."""
    try:
        return decode(text)
    except RecursionError:
        log.warning("values nested more than %d levels deep are read as null: %.200r", MAX_DEPTH, bytes(text))
        return decode(type(text)(without_deep_values(bytes(text), MAX_DEPTH)))


def without_deep_values(text: bytes, most: int) -> bytes:
    """Return JSON in which each list or object below `most` levels is null. It needs no recursion."""
    parts: list[bytes] = []
    depth = start = 0
    for token in _TOKEN.finditer(text):
        match token[0]:
            case b"[" | b"{":
                depth += 1
                if depth == most + 1:
                    parts += [text[start : token.start()], b"null"]
            case b"]" | b"}":
                if depth == most + 1:
                    start = token.end()
                depth -= 1
            case _:
                pass
    return b"".join([*parts, text[start:]])
