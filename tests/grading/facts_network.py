"""Graders of network facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grading.types import Grader

GRADERS: dict[str, Grader] = {}
UNGRADED: dict[tuple[str, str], str] = {}
