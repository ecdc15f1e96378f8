r"""Regular expressions with the syntax and linear time of RE2, like Go's regexp.

google-re2 accepts and rejects the same as Go, except for \C (a byte), which Go lacks. Python's `re` differs in both,
and takes exponential time for some expressions.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol, cast

from zonewise.rules.types import RuleError

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 4096
"""Maximum bytes of an expression."""
_MAX_MEMORY = 2 << 20
"""Maximum bytes of a compiled expression and its states; RE2 needs no more for any text."""
_CACHE_SIZE = 16

_ESCAPES = re.compile(r"\\Q.*?(?:\\E|\Z)|\\.", re.DOTALL)
"""A quotation or an escape; neither begins within the other."""


class RegularExpression(Protocol):
    """A compiled expression."""

    def search(self, text: bytes) -> object | None:
        """Return the first match anywhere in a text; None if there is none."""
        ...


@lru_cache(_CACHE_SIZE)
def compile_regexp(pattern: str) -> RegularExpression:
    """Return a compiled expression. Raises RuleError."""
    try:
        import re2  # pyright: ignore[reportMissingImports] -- has no types
    except ImportError as error:
        raise RuleError("the operator InRegexp needs the package google-re2: install zonewise[agent]") from error
    content = encoded(pattern)
    if len(content) > MAX_LENGTH:
        raise RuleError(f"the regular expression has more than {MAX_LENGTH} bytes")
    if _has_one_byte(pattern):
        raise RuleError(f"{pattern[:100]!r} is not a regular expression: \\C")
    options = re2.Options()  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    options.max_mem, options.log_errors = _MAX_MEMORY, False
    compiled = cast("Callable[[bytes, object], RegularExpression]", re2.compile)  # pyright: ignore[reportUnknownMemberType]
    try:
        return compiled(content, options)
    except re2.error as error:  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        reason = _reason(cast("object", error))
        raise RuleError(f"{pattern[:100]!r} is not a regular expression: {reason}") from None


def encoded(text: str) -> bytes:
    """Return a text as RE2 reads it; system bytes that are not UTF-8 become the original bytes again."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def _has_one_byte(pattern: str) -> bool:
    return r"\C" in _ESCAPES.findall(pattern)


def _reason(error: object) -> str:
    detail = getattr(error, "args", ("",))[0]
    return detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
