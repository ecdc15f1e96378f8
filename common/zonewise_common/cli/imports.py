"""Imports of many modules."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


@contextmanager
def without_collections() -> Generator[None]:
    """Collect no garbage within this block, which imports modules; later collections skip the objects that it creates.

    Modules are tens of thousands of objects that are never freed. Looking for garbage among them takes an eighth to a
    quarter of the time of the imports, and more when the program ends. If collections are disabled already, nothing
    changes.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
