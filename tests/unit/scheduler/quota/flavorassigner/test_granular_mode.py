"""The order of granular modes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.quota.api.queue_types import FlavorFungibility
from zonewise_scheduler.quota.flavorassigner.granular_mode import (
    BEST_GRANULAR_MODE,
    WORST_GRANULAR_MODE,
    GranularMode,
    PreemptionMode,
    is_preferred,
    should_try_next_flavor,
)

MODES = st.builds(GranularMode, st.sampled_from(PreemptionMode), st.integers(0, 2))
FUNGIBILITIES = st.sampled_from([FlavorFungibility(), FlavorFungibility(preference="PreemptionOverBorrowing")])


@given(MODES, MODES, MODES, FUNGIBILITIES)
def test_preference_is_an_order(
    a: GranularMode, b: GranularMode, c: GranularMode, fungibility: FlavorFungibility
) -> None:
    """It is asymmetric and transitive. No mode is better than the best; all but NO_FIT are better than the worst."""
    assert not (is_preferred(a, b, fungibility) and is_preferred(b, a, fungibility))
    if is_preferred(a, b, fungibility) and is_preferred(b, c, fungibility):
        assert is_preferred(a, c, fungibility)
    assert not is_preferred(a, BEST_GRANULAR_MODE, fungibility)
    assert is_preferred(a, WORST_GRANULAR_MODE, fungibility) == (a.preemption_mode != PreemptionMode.NO_FIT)


@pytest.mark.parametrize(
    ("mode", "borrowing", "continues"),
    [
        (PreemptionMode.NO_FIT, 0, {"": True, "borrow": True, "preempt": True}),
        (PreemptionMode.NO_CANDIDATES, 0, {"": True, "borrow": True, "preempt": True}),
        (PreemptionMode.PREEMPT, 0, {"": False, "borrow": False, "preempt": True}),
        (PreemptionMode.PREEMPT, 1, {"": False, "borrow": True, "preempt": True}),
        (PreemptionMode.FIT, 0, {"": False, "borrow": False, "preempt": False}),
        (PreemptionMode.FIT, 1, {"": False, "borrow": True, "preempt": False}),
    ],
)
def test_the_scan_goes_on_where_the_queue_says_so(
    mode: PreemptionMode, borrowing: int, continues: dict[str, bool]
) -> None:
    """By which of borrowing and preemption the queue has as TryNextFlavor."""
    fungibilities = {
        "": FlavorFungibility("MayStopSearch", "MayStopSearch"),
        "borrow": FlavorFungibility("TryNextFlavor", "MayStopSearch"),
        "preempt": FlavorFungibility("MayStopSearch", "TryNextFlavor"),
    }
    granular = GranularMode(mode, borrowing)
    assert {name: should_try_next_flavor(granular, each) for name, each in fungibilities.items()} == continues
