"""Events that wake the agent: changed files, hotplugged hardware, other threads, signals."""

from __future__ import annotations

from zonewise.daemon.events.reasons import MACHINE_UNCHANGED, Reason

__all__ = ["MACHINE_UNCHANGED", "Reason"]
