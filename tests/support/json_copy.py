"""Copies of JSON values: ten times as fast as copy.deepcopy, and only for what an API server can store."""

from __future__ import annotations

from typing import Any

import msgspec


def json_copy(value: Any) -> Any:
    """Return an equal JSON value that shares nothing with the argument."""
    return msgspec.json.decode(msgspec.json.encode(value))
