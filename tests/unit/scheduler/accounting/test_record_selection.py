"""Which records a report selects."""

from __future__ import annotations

import pytest

from support.run_records import run_record
from zonewise_scheduler.accounting.record_selection import RecordSelection


@pytest.mark.parametrize(
    ("selection", "selects"),
    [
        (RecordSelection(), True),
        (RecordSelection(since=run_record().ended), True),
        (RecordSelection(until=run_record().ended), False),
        (RecordSelection(users=frozenset({"ada"}), outcomes=frozenset({"succeeded"})), True),
        (RecordSelection(users=frozenset({"ada"}), outcomes=frozenset({"failed"})), False),
        (RecordSelection(users=frozenset({"-"})), False),
        (RecordSelection(jobs=frozenset({"other"})), False),
        (RecordSelection(namespaces=frozenset({"other"})), False),
    ],
)
def test_a_record_is_selected_if_it_passes_each_condition(selection: RecordSelection, *, selects: bool) -> None:
    assert selection.has(run_record()) == selects


def test_the_unknown_user_can_be_selected() -> None:
    assert RecordSelection(users=frozenset({"-"})).has(run_record(user=None))
