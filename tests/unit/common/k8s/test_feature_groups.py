"""A node's groups in annotations, written by one or several agents, and read back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.feature_groups import ANNOTATION_PREFIX, groups_text, recorded_groups

NAMES = st.frozensets(st.from_regex(r"\A[a-z]{1,5}/[a-z0-9.-]{1,9}\Z"), max_size=4)


@given(NAMES, NAMES)
def test_what_agents_record_is_read(one: frozenset[str], other: frozenset[str]) -> None:
    annotations = {
        f"{ANNOTATION_PREFIX}one": groups_text(one),
        f"{ANNOTATION_PREFIX}other": groups_text(other),
        "zonewise.dev/rules.one": "x",
    }
    assert recorded_groups(annotations) == one | other


def test_no_groups_differ_from_no_agent() -> None:
    assert recorded_groups({f"{ANNOTATION_PREFIX}one": groups_text(())}) == frozenset()
    assert recorded_groups({"zonewise.dev/rules.one": "x"}) is None
    assert recorded_groups({f"{ANNOTATION_PREFIX}one": 7}) == frozenset()
