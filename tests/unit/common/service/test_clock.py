"""The programs' clock."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from zonewise_common.service.clock import monotonic_clock

if TYPE_CHECKING:
    import pytest

if TYPE_CHECKING:
    import pytest


def test_the_clock_is_the_time_of_day_and_ignores_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = monotonic_clock()
    assert abs(clock() - time.time()) < 60
    before = clock()
    monkeypatch.setattr(time, "time", lambda: 0.0)
    assert clock() >= before
