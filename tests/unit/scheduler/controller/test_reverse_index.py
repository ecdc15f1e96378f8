"""The sources of a target are those that refer to it now."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_scheduler.controller.reverse_index import ReverseIndex

TARGETS = st.lists(st.sampled_from("abc"), unique=True).map(tuple)


@given(st.lists(st.tuples(st.integers(0, 3), TARGETS)))
def test_sources_are_those_that_refer_to_a_target_now(changes: list[tuple[int, tuple[str, ...]]]) -> None:
    index: ReverseIndex[int, str] = ReverseIndex()
    targets: dict[int, tuple[str, ...]] = {}
    for source, new in changes:
        index.change(source, new)
        targets[source] = new
        assert index.targets(source) == new
        for target in "abc":
            assert set(index.sources(target)) == {each for each, others in targets.items() if target in others}


def test_sources_keep_their_order_while_they_refer_to_a_target() -> None:
    index: ReverseIndex[str, str] = ReverseIndex()
    for source in ("x", "y", "x"):
        index.change(source, ("a",))
    assert list(index.sources("a")) == ["x", "y"]
