"""Mirror pods that were deleted: their static pods count until they are known to have ended."""

from __future__ import annotations

from zonewise_scheduler.extender.objects.api_objects import ObservedPod
from zonewise_scheduler.extender.state.deleted_mirror_pods import MIRROR_LIFETIME, DeletedMirrorPods


def mirror(uid: str, node: str = "n") -> ObservedPod:
    return ObservedPod(uid, "lab", f"p-{node}", None, node)


def test_a_mirror_pod_that_is_created_again() -> None:
    """The same static pod has not ended; a static pod whose file has changed has."""
    for uid, predecessor in (("file-1", None), ("file-2", mirror("file-1"))):
        mirrors = DeletedMirrorPods()
        mirrors.add(mirror("file-1"), 0.0)
        assert mirrors.take_predecessor(mirror(uid)) == predecessor
        assert mirrors.take_predecessor(mirror(uid)) is None
        assert mirrors.expired(MIRROR_LIFETIME) == []


def test_a_mirror_pod_that_is_not_created_again() -> None:
    """It expires once the kubelet would have created it again."""
    mirrors = DeletedMirrorPods()
    mirrors.add(mirror("file-1"), 1.0)
    mirrors.add(mirror("file-2", "m"), 2.0)
    assert mirrors.on_node("n") == [mirror("file-1")]
    assert mirrors.expired(MIRROR_LIFETIME) == []
    assert mirrors.expired(1.0 + MIRROR_LIFETIME) == [mirror("file-1")]
    mirrors.remove(mirror("file-1"))
    assert mirrors.on_node("n") == []
