"""Whether Kueue or zonewise manages the queues, according to the Lease of Kueue's leader election."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.json_strategies import VALUES
from support.kueue_beside import HOLDER, LEASE_NAME, kueue_lease
from zonewise_scheduler.controller.kueue.kueue_lease import (
    ADOPTED_ANNOTATION,
    is_adopted,
    kueue_claim,
    parse_lease_name,
    renewal,
)

ACTIONS = st.lists(st.sampled_from(["renew", "adopt", "return"]), max_size=12)


def test_without_a_lease_kueue_has_no_claim() -> None:
    assert kueue_claim(LEASE_NAME, None) == ""


@given(ACTIONS)
def test_the_last_action_determines_which_controller_manages_the_queues(actions: list[str]) -> None:
    """After any history, the queues are adopted if and only if the last action was the adoption."""
    lease, last = kueue_lease(), "renew"
    for second, action in enumerate(actions, start=1):
        annotations: dict[str, Any] = lease["metadata"]["annotations"]
        if action == "renew":
            lease = kueue_lease(second, annotations=annotations)
        elif action == "adopt":
            lease = kueue_lease(int(renewal(lease)[17:19]), annotations={ADOPTED_ANNOTATION: renewal(lease)})
        else:
            lease["metadata"]["annotations"] = {}
        last = action
    assert is_adopted(lease) == (last == "adopt")
    assert bool(kueue_claim(LEASE_NAME, lease)) == (last != "adopt")


def test_the_claim_names_lease_and_holder_and_does_not_change_with_renewals() -> None:
    claim = kueue_claim(LEASE_NAME, kueue_lease(1))
    assert str(LEASE_NAME) in claim
    assert HOLDER in claim
    assert kueue_claim(LEASE_NAME, kueue_lease(2)) == claim


@given(VALUES)
def test_an_unreadable_lease_is_a_claim_of_kueue(value: Any) -> None:
    for field in ("spec", "metadata"):
        assert kueue_claim(LEASE_NAME, {**kueue_lease(), field: value})


@pytest.mark.parametrize("text", ["a", "/b", "a/", "a/b/c"])
def test_an_invalid_name_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="use NAMESPACE/NAME"):
        parse_lease_name(text)
    assert parse_lease_name("") is None
