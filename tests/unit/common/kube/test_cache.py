"""The cache's version never decreases, and the cache holds the server's state at that version from any source."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from zonewise_common.kube.cache import Cache, Change, ReceivedObject, StaleListing

NAMES = st.sampled_from("abcd")


def received(name: str, version: int, value: Any = "", uid: str = "") -> ReceivedObject[Any]:
    return ReceivedObject(("default", name), uid or f"uid-{name}", version, value)


class Following(RuleBasedStateMachine):
    """A server that changes, and a client that lists and watches, interleaved: late, repeated or outdated."""

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        self.objects: dict[str, ReceivedObject[Any]] = {}
        self.history: list[tuple[str, ReceivedObject[Any]]] = []
        self.states: list[dict[str, ReceivedObject[Any]]] = [{}]
        """The states by version, which a lagging server would list."""
        self.cache: Cache[Any] = Cache()
        self.highest = 0
        self.mirror: dict[str, Any] = {}
        """The objects computed only from the changes."""

    def _happen(self, kind: str, item: ReceivedObject[Any]) -> None:
        self.history.append((kind, item))
        self.states.append(dict(self.objects))

    def _tell(self, name: str, change: Change[Any] | None) -> None:
        if change is None:
            return
        assert self.mirror.pop(name, None) == change.old
        if change.new is not None:
            self.mirror[name] = change.new

    @rule(name=NAMES)
    def write(self, name: str) -> None:
        self.version += 1
        uid = self.objects[name].uid if name in self.objects else f"{name}-{self.version}"
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.objects[name] = received(name, self.version, (name, self.version), uid)
        self._happen(kind, self.objects[name])

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        if name in self.objects:
            self.version += 1
            removed = self.objects.pop(name)._replace(version=self.version)
            self._happen("DELETED", removed)

    @rule(age=st.integers(0, 6))
    def relist(self, age: int) -> None:
        version = max(0, self.version - age)
        state = self.states[version]
        if version < self.cache.version:
            with pytest.raises(StaleListing):
                self.cache.replace(state.values(), version)
            return
        for change in self.cache.replace(state.values(), version):
            self._tell(str((change.old or change.new or ("",))[0]), change)

    @rule(back=st.integers(0, 4), most=st.integers(0, 6))
    def watch(self, back: int, most: int) -> None:
        """Apply some events from the known version, or from an earlier one that a server may begin at."""
        start = max(0, self.cache.version - back)
        for kind, item in self.history[start : start + most]:
            act = self.cache.remove if kind == "DELETED" else self.cache.put
            self._tell(item.key[1], act(item))

    @rule()
    def bookmark(self) -> None:
        if self.cache.version == self.version:
            self.cache.advance(self.version)

    @invariant()
    def never_back(self) -> None:
        assert self.cache.version >= self.highest
        self.highest = self.cache.version

    @invariant()
    def state_at_version(self) -> None:
        state = {name: item.value for name, item in self.states[self.cache.version].items()}
        assert {value[0]: value for value in self.cache.values()} == state
        assert self.mirror == state


TestFollowing = Following.TestCase


def test_a_recreated_object() -> None:
    """Another object of the same name is reported as a deletion and an addition."""
    cache: Cache[str] = Cache()
    cache.replace([received("a", 1, "old")], 1)
    assert cache.replace([received("a", 5, "new", uid="other")], 9) == [Change("old", None), Change(None, "new")]


def test_a_copy_has_the_same_objects_and_changes_independently() -> None:
    cache: Cache[str] = Cache()
    cache.replace([received("a", 1, "a"), received("b", 1, "b")], 3)
    copied = cache.copy()
    assert copied.replace([received("a", 1, "a")], 9) == [Change("b", None)]
    assert (copied.version, cache.version, cache.values()) == (9, 3, ["a", "b"])


def test_an_unchanged_listing_has_no_changes() -> None:
    """Objects of the same version and value are not reported again, and the cached value is the same object."""
    cache: Cache[list[int]] = Cache()
    value = [1]
    cache.replace([received("a", 1, value)], 1)
    assert cache.replace([received("a", 1, [1])], 7) == []
    assert cache.get(("default", "a")) is value


def test_one_version_of_two_histories() -> None:
    """After etcd was restored from a backup, a version may refer to another state of an object."""
    cache: Cache[str] = Cache()
    cache.replace([received("a", 8, "lost")], 9)
    assert cache.replace([received("a", 8, "restored")], 12) == [Change("lost", "restored")]


def test_an_object_that_does_not_decode_keeps_its_last_value() -> None:
    """An object that does not decode keeps its last valid value, even in a listing."""
    cache: Cache[str] = Cache()
    cache.replace([received("a", 1, "known")], 1)
    assert cache.put(received("a", 2, None)) is None
    assert cache.replace([received("a", 3, None), received("b", 3, None)], 3) == []
    assert cache.values() == ["known"]


@given(st.integers(1, 100), st.integers(0, 99))
def test_a_restored_server(version: int, older: int) -> None:
    """With `force`, the older state of a restored server replaces the cache."""
    cache: Cache[str] = Cache()
    cache.replace([received("a", version, "x")], 100)
    assert cache.replace([received("a", older, "y")], older, force=True) == [Change("x", "y")]
    assert cache.version == older
