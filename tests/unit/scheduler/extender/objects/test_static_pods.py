"""The identity of a static pod, which its mirror pods share."""

from __future__ import annotations

from typing import Any

from zonewise_scheduler.extender.objects.static_pods import static_uid


def metadata(hash_of_file: str, name: str = "p-n", **fields: Any) -> dict[str, Any]:
    return {"namespace": "lab", "name": name, "annotations": {"kubernetes.io/config.mirror": hash_of_file}, **fields}


def test_a_mirror_pod_that_is_created_again() -> None:
    """It has another UID, but the same identity; that of a changed file, or of another name, differs."""
    first = static_uid(metadata("f1", uid="1"))
    assert first == static_uid(metadata("f1", uid="2"))
    assert len({first, static_uid(metadata("f2")), static_uid(metadata("f1", name="q-n"))}) == 3


def test_other_pods() -> None:
    """A pod without the annotation is not static."""
    assert static_uid({"uid": "1", "annotations": {"a": "b"}}) == ""
    assert static_uid({}) == ""
    assert static_uid({"annotations": "damaged"}) == ""
