"""What a publish sent."""

from __future__ import annotations

from typing import NamedTuple


class WriteResult(NamedTuple):
    """What one publish sent to the API server."""

    operation: str
    """"apply", "patch" or "none"."""
    bytes: int = 0
    """Of the request's body."""


NO_WRITE = WriteResult("none")
