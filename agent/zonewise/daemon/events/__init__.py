"""Events that wake the agent: changed files, hotplugged hardware, other threads, signals."""

from __future__ import annotations

from zonewise.daemon.events.reasons import Reason

__all__ = ["Reason"]
