"""A watch: the events of one request, in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from zonewise_common.kube.errors import BadResponse, error_from_status
from zonewise_common.kube.nested_json import decode_nested

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Self

    from zonewise_common.kube.transport import Stream


class Event(msgspec.Struct, frozen=True, gc=False):
    """A change of one object (apimachinery pkg/apis/meta/v1/watch.go)."""

    type: str
    """ADDED, MODIFIED, DELETED or BOOKMARK, or a type that a newer server introduced."""
    object: msgspec.Raw
    """The object as JSON; the reader decodes the fields that it needs."""


_EVENT = msgspec.json.Decoder(Event)


class Watch:
    """One open watch; iterating it yields events until the server ends it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[Event]:
        """Yield events. Raises ApiError for an event that is an error, TransportError if the stream breaks."""
        for line in self._stream:
            if not line or line.isspace():
                continue
            try:
                event = decode_nested(_EVENT.decode, line)
            except msgspec.DecodeError as error:
                raise BadResponse(f"a line of the watch is not an event: {error}") from error
            if event.type == "ERROR":
                raise error_from_status(event.object)
            yield event

    def abort(self) -> None:
        """End the watch at once, from any thread."""
        self._stream.abort()

    def close(self) -> None:
        """Close the connection; call it in the iterating thread."""
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
