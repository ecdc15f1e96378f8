"""Requests of a command that continues through an outage of the API server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class OutageTolerance(Generic[T]):
    """Repeats a request, and reports each outage once."""

    def __init__(self, request: Callable[[], T], note: Callable[[str], object], meanwhile: str) -> None:
        """Set the request, and how to print a note; `meanwhile`: what happens until the server responds."""
        self._request = request
        self._note = note
        self._meanwhile = meanwhile
        self._has_responded = False
        self._is_out = False

    def result(self) -> T | None:
        """Return the result of the request; None: there is an outage. Raises KubeError.

        It is an outage if a server that has responded before fails or does not respond, or if credentials cannot be
        renewed.
        """
        from zonewise_common.kube.errors import ConfigError, ServerError, TooManyRequests, TransportError

        try:
            result = self._request()
        except (ConfigError, ServerError, TooManyRequests, TransportError) as error:
            if not self._has_responded:
                raise
            if not self._is_out:
                self._note(f"the API server: {error}; {self._meanwhile}")
            self._is_out = True
            return None
        if self._is_out:
            self._note("the API server responds again")
        self._has_responded, self._is_out = True, False
        return result
