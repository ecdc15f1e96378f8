"""The ManagedByKueue condition is set while Kueue manages a queue; no other condition changes."""

from __future__ import annotations

from typing import Any

from zonewise_scheduler.controller.kueue.managed_condition import MANAGED_BY_KUEUE, REASON, condition_patch

ACTIVE = {"type": "Active", "status": "True", "reason": "Ready", "message": "m", "lastTransitionTime": "t"}


def queue(*conditions: Any) -> Any:
    return {"metadata": {"name": "q", "resourceVersion": "7"}, "status": {"conditions": list(conditions)}}


def test_it_is_added_and_removed_without_changing_other_conditions() -> None:
    made = condition_patch(queue(ACTIVE), "because", 0.0)
    assert made is not None
    active, managed = made["status"]["conditions"]
    assert active == ACTIVE
    assert (managed["type"], managed["status"], managed["reason"]) == (MANAGED_BY_KUEUE, "True", REASON)
    assert managed["message"] == "because"
    assert made["metadata"] == {"resourceVersion": "7"}
    assert condition_patch(queue(ACTIVE, managed), "because", 9.0) is None
    removed = condition_patch(queue(ACTIVE, managed), "", 9.0)
    assert removed is not None
    assert removed["status"]["conditions"] == [ACTIVE]
    assert condition_patch(queue(ACTIVE), "", 9.0) is None


def test_another_holder_changes_the_message_but_not_the_time() -> None:
    first = condition_patch(queue(), "because", 0.0)
    assert first is not None
    second = condition_patch(queue(*first["status"]["conditions"]), "therefore", 9.0)
    assert second is not None
    [managed] = second["status"]["conditions"]
    assert managed["message"] == "therefore"
    assert managed["lastTransitionTime"] == first["status"]["conditions"][0]["lastTransitionTime"]
