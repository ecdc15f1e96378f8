"""Parameters of the read API: each known parameter has a value, and no other parameter does."""

from __future__ import annotations

import contextlib
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.readapi.query_parameters import read_number, read_parameters

DEFAULTS = {"queue": "", "limit": "100"}


@given(st.dictionaries(st.sampled_from(sorted(DEFAULTS)), st.text(st.characters(codec="utf-8"))))
def test_query_values_replace_the_defaults(given_values: dict[str, str]) -> None:
    assert read_parameters(urlencode(given_values), DEFAULTS) == DEFAULTS | given_values


@given(st.text())
def test_any_query_is_read_or_rejected(query: str) -> None:
    with contextlib.suppress(ValueError):
        assert read_parameters(query, DEFAULTS).keys() == DEFAULTS.keys()


@pytest.mark.parametrize("text", ["", "-1", "1.5", "x", "1234567890", "\u0661"])
def test_an_invalid_number_is_named_in_the_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"limit: .* is not a non-negative number"):
        read_number({"limit": text}, "limit")


def test_a_number_is_read() -> None:
    assert read_number({"limit": "000000020"}, "limit") == 20
