"""Numbers of many jobs, stored in arrays."""

from __future__ import annotations

from math import isnan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.simulator.number_column import NumberColumn

NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False)


@given(st.dictionaries(st.integers(0, 50), NUMBERS))
def test_numbers_are_read_back_as_they_were_set(numbers: dict[int, float]) -> None:
    """Integers are read back as integers, and floats as floats."""
    column = NumberColumn()
    for index, number in numbers.items():
        column[index] = number
    assert {index: repr(column[index]) for index in column.indices()} == {
        index: repr(numbers[index]) for index in sorted(numbers)
    }
    assert [column.number(index) for index in range(60)] == [numbers.get(index) for index in range(60)]


@given(st.lists(NUMBERS))
def test_appended_numbers_are_in_their_order(numbers: list[float]) -> None:
    column = NumberColumn()
    for number in numbers:
        column.append(number)
    assert [column[index] for index in range(len(column))] == numbers
    assert column.floats(len(numbers)).tolist() == numbers


def test_an_absent_number_is_not_zero() -> None:
    column = NumberColumn()
    column[2] = 7
    assert (len(column), 1 in column, 2 in column, 3 in column) == (3, False, True, False)
    with pytest.raises(KeyError):
        _ = column[1]
    assert [isnan(value) for value in column.floats(4)] == [True, True, False, True]
