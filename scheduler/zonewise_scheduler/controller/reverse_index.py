"""Which objects refer to another one, by that one, which need not exist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

Source = TypeVar("Source")
Target = TypeVar("Target")


class ReverseIndex(Generic[Source, Target]):
    """The sources of each target, in the order in which they began to refer to it."""

    def __init__(self) -> None:
        self._sources: dict[Target, dict[Source, None]] = {}
        self._targets: dict[Source, tuple[Target, ...]] = {}

    def change(self, source: Source, targets: tuple[Target, ...]) -> None:
        """Replace the targets of a source, each at most once; () if it refers to none or no longer exists."""
        before = self._targets.pop(source, ())
        if targets:
            self._targets[source] = targets
        if targets == before:
            return
        for target in before:
            sources = self._sources[target]
            del sources[source]
            if not sources:
                del self._sources[target]
        for target in targets:
            self._sources.setdefault(target, {})[source] = None

    def targets(self, source: Source) -> tuple[Target, ...]:
        """Return the targets of a source."""
        return self._targets.get(source, ())

    def sources(self, target: Target) -> Collection[Source]:
        """Return the sources that refer to a target."""
        return self._sources.get(target, ())
