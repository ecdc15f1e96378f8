"""What wakes the agent: changed files, hardware that comes and goes, other threads, signals."""

from __future__ import annotations

from zonewise.daemon.events.reasons import Reason

__all__ = ["Reason"]
