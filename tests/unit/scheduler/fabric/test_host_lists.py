"""Slurm's host lists."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.fabric.host_lists import MAX_NAMES, expand, fold

NAMES = st.lists(st.from_regex(r"[a-c]{0,2}[0-9]{0,4}(-?[a-c][0-9]{0,2})?", fullmatch=True).filter(bool), unique=True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("login", ["login"]),
        ("tux[0-3,12]", ["tux0", "tux1", "tux2", "tux3", "tux12"]),
        ("n[008-011]", ["n008", "n009", "n010", "n011"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[1-2]-ib,login", ["n1-ib", "n2-ib", "login"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    """The first number of a range sets the width."""
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n[1-", "'n[1-' is not a list of names"),
        ("n1,", "'n1,' is not a list of names"),
        ("a,,b", "',b' is not a list of names"),
        ("a]", "'a]' is not a list of names"),
        ("n[]", "'' is not a range of numbers"),
        ("n[1-2,x]", "'x' is not a range of numbers"),
        ("n[4-2]", "'4-2' is a range that ends before it begins"),
        ("n[1-999999999999]", f"expands to more than {MAX_NAMES} names"),
        ("n[1-9999]m[1-9999]", f"expands to more than {MAX_NAMES} names"),
        ("n[1-200000],m[1-200000]", f"expands to more than {MAX_NAMES} names"),
        ("n[١-٢]", "is not a range of numbers"),
        ("n 1", "'n 1' is not a list of names"),
    ],
)
def test_a_wrong_list_is_rejected(text: str, message: str) -> None:
    """The error names the wrong part. No list uses unbounded memory."""
    with pytest.raises(ValueError, match=r".") as error:
        expand(text)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1", "n2", "n3", "n5", "login"], "login,n[1-3,5]"),
        ([f"n{i}" for i in range(8, 12)], "n[8-11]"),
        ([f"n{i:03}" for i in range(1, 129)], "n[001-128]"),
        (["n01", "n1"], "n1,n01"),
        (["n7-ib", "n8-ib"], "n[7-8]-ib"),
    ],
)
def test_fold(names: list[str], text: str) -> None:
    """The last number of names becomes a range."""
    assert fold(names) == text


@given(NAMES)
def test_expand_inverts_fold(names: list[str]) -> None:
    """No name is lost, and none is added."""
    assert sorted(expand(fold(names))) == sorted(names)
