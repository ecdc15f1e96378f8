"""The reasons why the candidates of a filter call reject its pod."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class RejectionCause(NamedTuple):
    """The deciding cause of a rejection, in few distinct words: they are labels of metrics."""

    reason: str
    """Reason of a kubelet, of the ledger or of the extender."""
    resource: str = ""
    """The resource that decides; empty if none does."""


class FailedNodes(dict[str, str]):
    """Reasons by node. Calls share a value, so callers must not change it."""

    def __init__(self, reasons: Mapping[str, str] | None = None, cause: RejectionCause | None = None) -> None:
        """`cause`: the cause for most nodes; None if no candidate rejects the pod."""
        super().__init__(reasons or {})
        self.cause = cause

    @cached_property
    def encoded(self) -> msgspec.Raw:
        """Return the reasons as JSON, which is encoded once for all calls."""
        return msgspec.Raw(msgspec.json.encode(self))

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """Return the distinct reasons, sorted."""
        return tuple(sorted(set(self.values())))
