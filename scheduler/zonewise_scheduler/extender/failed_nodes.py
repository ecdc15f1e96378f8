"""Why each candidate of a filter call rejects its pod."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


class RejectionCause(NamedTuple):
    """What decides that nodes reject a pod, in few words: metrics have them as labels."""

    reason: str
    """Of a kubelet, of the ledger, or of the extender."""
    resource: str = ""
    """The one that decides; empty: none does."""


class FailedNodes(dict[str, str]):
    """Reasons by node. Calls share a value, so it is not to be changed."""

    def __init__(self, reasons: Mapping[str, str] | None = None, cause: RejectionCause | None = None) -> None:
        """`cause`: that of most nodes; None where no candidate rejects the pod."""
        super().__init__(reasons or {})
        self.cause = cause

    @cached_property
    def encoded(self) -> msgspec.Raw:
        """Return the reasons as JSON, which is written once for all calls."""
        return msgspec.Raw(msgspec.json.encode(self))

    @cached_property
    def messages(self) -> tuple[str, ...]:
        """Return the distinct reasons, sorted."""
        return tuple(sorted(set(self.values())))
