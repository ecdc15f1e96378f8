"""Interning: equal values share one object."""

from __future__ import annotations

import gc

import pytest

from support.agent_objects import TWO, published, report_of, state_of
from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_report import read_nrt


def test_equal_nodes_share_their_values() -> None:
    """The states share their parts too. A kind is dropped together with its last node."""
    interner = KindInterner()
    first, second = (state_of(read_nrt(published(TWO, report_of(TWO)), interner)) for _ in range(2))
    assert first == second
    assert first.kind is second.kind
    assert first.kind.cpus is second.kind.cpus
    assert all(a is b for a, b in zip(first[2:], second[2:], strict=True))
    count = len(interner)
    del first, second
    gc.collect()
    assert (count, len(interner)) == (1, 0)


@pytest.mark.parametrize(("others", "is_interned"), [(65_534, True), (65_535, False)])
def test_an_interner_starts_over_at_65536_parts(others: int, is_interned: bool) -> None:
    """The memory of an interner is thus bounded."""
    interner = KindInterner()
    parts = [interner.intern((number,)) for number in range(1 + others)]
    assert (interner.intern((*parts[0],)) is parts[0]) is is_interned
