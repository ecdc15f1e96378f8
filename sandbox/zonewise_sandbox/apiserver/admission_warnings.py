"""Warnings of webhooks about the request that the current thread handles, and their headers.

Sources: k8s.io/apiserver/pkg/warning/context.go, pkg/endpoints/filters/warning.go and k8s.io/apimachinery/pkg/util/net
NewWarningHeader.
"""

from __future__ import annotations

import unicodedata
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

_MAX_CHARACTERS = 4 << 10
"""Maximum of all warnings of a response; beyond it, each one is cut short (truncateAtTotalRunes)."""
_MAX_CUT = 256
"""Maximum characters of a warning that is cut short (truncateItemRunes)."""
_warnings: ContextVar[list[str] | None] = ContextVar("warnings", default=None)


@contextmanager
def collect_warnings() -> Generator[list[str]]:
    """Yield a list to which the warnings about a request are added while the context is entered."""
    texts: list[str] = []
    token = _warnings.set(texts)
    try:
        yield texts
    finally:
        _warnings.reset(token)


def add_warning(text: str) -> None:
    """Add a warning unless it is a repetition. It is lost if no warnings are collected."""
    texts = _warnings.get()
    if texts is not None and text and text not in texts:
        texts.append(text)


def warning_headers(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Return a header for each warning without control characters; it is UTF-8, decoded as ISO 8859-1."""
    shown = [text for text in texts if not any(unicodedata.category(character) == "Cc" for character in text)]
    if sum(map(len, shown)) > _MAX_CHARACTERS:
        shown = [text[:_MAX_CUT] for text in shown]
        lengths = accumulate(map(len, shown), initial=0)
        shown = [text for text, before in zip(shown, lengths, strict=False) if before < _MAX_CHARACTERS]
    return tuple(("Warning", _header(text)) for text in shown)


def _header(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'.encode().decode("latin-1")
