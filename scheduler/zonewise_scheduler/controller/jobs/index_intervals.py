"""Completion indexes of an Indexed Job in the format of its status: "1,3-5,7" (k8s.io/api batch/v1 JobStatus)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTERVAL = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)


def count_indexes(text: str, completions: int) -> int:
    """Return how many different indexes below `completions` the intervals contain; invalid intervals contain none.

    Intervals may overlap. After an elastic Job was scaled down, its status may still list indexes from `completions`
    upwards (job_controller.go terminalIndexesCount).
    """
    count, following = 0, 0
    for first, last in sorted(_intervals(text)):
        first, last = max(first, following), min(last, completions - 1)
        count += max(0, last - first + 1)
        following = max(following, last + 1)
    return count


def _intervals(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        match = _INTERVAL.fullmatch(part)
        if match is not None:
            yield int(match[1]), int(match[2] or match[1])
