"""The type of graders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.snapshots import Snapshot
from zonewise.machine.model.machine import Machine

Grader = Callable[[Machine, Snapshot], tuple[Any, Any]]
