"""The order of granular modes."""

from __future__ import annotations

from itertools import product

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
BORROW_LAST = FlavorFungibility(preference="PreemptionOverBorrowing")
FUNGIBILITIES = st.sampled_from([FlavorFungibility(), BORROW_LAST])
BY_NAME = {
    "fit": PreemptionMode.FIT,
    "reclaim": PreemptionMode.RECLAIM,
    "preempt": PreemptionMode.PREEMPT,
    "none": PreemptionMode.NO_CANDIDATES,
}


@given(MODES, MODES, MODES, FUNGIBILITIES)
def test_preference_is_an_order(
    a: GranularMode, b: GranularMode, c: GranularMode, fungibility: FlavorFungibility
) -> None:
    """The order is asymmetric and transitive. No mode precedes the best one; all but NO_FIT precede the worst one."""
    assert not (is_preferred(a, b, fungibility) and is_preferred(b, a, fungibility))
    if is_preferred(a, b, fungibility) and is_preferred(b, c, fungibility):
        assert is_preferred(a, c, fungibility)
    assert not is_preferred(a, BEST_GRANULAR_MODE, fungibility)
    assert is_preferred(a, WORST_GRANULAR_MODE, fungibility) == (a.preemption_mode != PreemptionMode.NO_FIT)


@pytest.mark.parametrize(
    ("fungibility", "modes"),
    [
        (FlavorFungibility(), "fit-0 fit-1 fit-2 reclaim-0 reclaim-1 preempt-0 preempt-1 none-0 none-1 none-2"),
        (BORROW_LAST, "fit-0 reclaim-0 preempt-0 fit-1 reclaim-1 preempt-1 fit-2 preempt-2 none-0 none-1 none-2"),
    ],
)
def test_modes_from_the_best_to_the_worst(fungibility: FlavorFungibility, modes: str) -> None:
    """A mode without candidates is after all modes with candidates, whatever their borrowing level."""
    order = [GranularMode(BY_NAME[mode[:-2]], int(mode[-1])) for mode in modes.split()]
    for (first, a), (second, b) in product(enumerate(order), repeat=2):
        assert is_preferred(a, b, fungibility) == (first < second)


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
def test_the_scan_continues_if_the_queue_requires_it(
    mode: PreemptionMode, borrowing: int, continues: dict[str, bool]
) -> None:
    """The queue decides, by setting borrowing or preemption to TryNextFlavor."""
    fungibilities = {
        "": FlavorFungibility("MayStopSearch", "MayStopSearch"),
        "borrow": FlavorFungibility("TryNextFlavor", "MayStopSearch"),
        "preempt": FlavorFungibility("MayStopSearch", "TryNextFlavor"),
    }
    granular = GranularMode(mode, borrowing)
    assert {name: should_try_next_flavor(granular, each) for name, each in fungibilities.items()} == continues
