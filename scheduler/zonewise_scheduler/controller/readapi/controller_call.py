"""Function calls in the controller's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_scheduler.controller.controller import QueueController

T = TypeVar("T")


class ControllerCall(Protocol):
    """The type of ControllerLoop.call."""

    def __call__(self, function: Callable[[QueueController], T], timeout: float) -> T:
        """Return the result of a function that is called with the controller. Raises TimeoutError."""
        ...
