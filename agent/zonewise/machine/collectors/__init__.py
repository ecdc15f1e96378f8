"""The collectors, in the order in which they run: each stands behind those whose facts it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zonewise.machine.collector import Collector

COLLECTORS: tuple[Collector, ...] = ()
