"""The styles of pictures."""

from __future__ import annotations

from zonewise_scheduler.backfill.policies import POLICY_NAMES
from zonewise_scheduler.simulator.plot.style import policy_style


def test_each_named_policy_has_a_colour_and_a_mark() -> None:
    styles = [policy_style(index) for index in range(len(POLICY_NAMES))]
    assert len({style.colour for style in styles}) == len({style.mark for style in styles}) == len(POLICY_NAMES)


def test_more_policies_are_still_distinct() -> None:
    assert len({policy_style(index) for index in range(49)}) == 49
