"""Whether the API server serves an optional kind."""

from __future__ import annotations

from enum import Enum


class Served(Enum):
    """Whether the API server serves a kind."""

    UNKNOWN = "unknown"
    """Not known yet."""
    NO = "no"
    YES = "yes"
    FORBIDDEN = "forbidden"
    """The extender may not read the kind."""
