"""Cached rejections: they match the same candidates in any order, and the number of shapes is limited."""

from __future__ import annotations

from support.extender_caches import DirectCluster, candidates
from support.ledger_kubelets import pod_shape
from zonewise_scheduler.extender.failed_nodes import FailedNodes
from zonewise_scheduler.extender.tables import rejections
from zonewise_scheduler.extender.tables.rejections import POD_GROUP, RejectionCache

SHAPE, OTHER = pod_shape((1, 0)), pod_shape((2, 0))


def test_the_same_candidates() -> None:
    """The order of the candidates does not matter; other candidates or another number of reports miss the cache."""
    cache = RejectionCache()
    cache.put(SHAPE, 2, FailedNodes({"a": "no", "b": "no"}))
    cached = cache.get(SHAPE, candidates(["b", "a"]), 2)
    assert cached is not None
    assert cached.failed_nodes == {"a": "no", "b": "no"}
    assert cache.get(SHAPE, candidates(["a"]), 2) is None
    assert cache.get(SHAPE, candidates(["a", "b"]), 3) is None
    assert cache.get(OTHER, candidates(["a", "b"]), 2) is None


def test_candidates_with_the_same_characters() -> None:
    """A result names the candidates of its own request, even if another request's names contain the same characters."""
    cache = RejectionCache()
    cache.put(SHAPE, 2, FailedNodes({"n-12": "no", "n-3": "no"}))
    assert cache.get(SHAPE, candidates(["n-21", "n-3"]), 2) is None
    assert cache.fail_all("waits", POD_GROUP, candidates(["n-12"])) == {"n-12": "waits"}
    assert cache.fail_all("waits", POD_GROUP, candidates(["n-21"])) == {"n-21": "waits"}


def test_one_reason_for_all_candidates() -> None:
    """Calls with the same reason and candidates share a value; others have their own."""
    cache = RejectionCache()
    failed = cache.fail_all("waits", POD_GROUP, candidates(["a", "b"]))
    assert (failed, failed.cause) == ({"a": "waits", "b": "waits"}, POD_GROUP)
    assert cache.fail_all("waits", POD_GROUP, candidates(["b", "a"])) is failed
    assert cache.fail_all("is bound", POD_GROUP, candidates(["a", "b"])) == {"a": "is bound", "b": "is bound"}
    assert cache.fail_all("waits", POD_GROUP, candidates(["a"])) == {"a": "waits"}
    for number in range(rejections._MAX_MESSAGES + 1):  # pyright: ignore[reportPrivateUsage]
        cache.fail_all(f"waits for {number}", POD_GROUP, candidates(["a"]))
    assert len(cache._by_message) == rejections._MAX_MESSAGES  # pyright: ignore[reportPrivateUsage]


def test_the_number_of_shapes_is_bounded() -> None:
    cache = RejectionCache()
    shapes = [pod_shape((cpus, 0)) for cpus in range(1, rejections._MAX_SHAPES + 2)]  # pyright: ignore[reportPrivateUsage]
    for shape in shapes:
        cache.put(shape, 1, FailedNodes({"a": "no"}))
    assert cache.get(shapes[0], candidates(["a"]), 1) is None
    assert cache.get(shapes[-1], candidates(["a"]), 1) is not None


def test_a_rejection_ends_with_a_change() -> None:
    """A rejected pod is rejected from the cache until a node may admit it."""
    cluster = DirectCluster("n")
    cluster.create("w", pod_shape((9, 0)))
    first, second = cluster.filter("w"), cluster.filter("w")
    assert second.failed_nodes is first.failed_nodes
    cluster.create("v", pod_shape((8, 0)))
    for name in ("v", "x", "y"):
        cluster.create(name, pod_shape((8, 0)))
    assert [cluster.filter(name).node for name in ("v", "x", "y", "y")] == ["n", "n", "", ""]
    cluster.delete("x")
    assert cluster.filter("y").node == "n"
