"""Zstandard: from the standard library since Python 3.14, before that from its backport with the same interface."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
