"""The bytes of an archive as a stream, decompressed piece by piece, up to a limit."""

from __future__ import annotations

import tarfile
from typing import IO, TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Callable

_MAGIC_BYTES = 6


class TooLargeError(Exception):
    """The archive unpacks to more than the limit."""


class BoundedStream:
    """The decompressed content of an archive; provides only read(), which is all that tarfile's streams need."""

    def __init__(self, file: IO[bytes], limit: int) -> None:
        """Set a seekable file, and the number of bytes after which read() raises TooLargeError."""
        magic = file.read(_MAGIC_BYTES)
        file.seek(0)
        self._stream = _opener(magic)(file)
        self._left = limit

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes, at most `size`; empty at the end."""
        data = self._stream.read(min(size, self._left + 1) if size >= 0 else self._left + 1)
        self._left -= len(data)
        if self._left < 0:
            raise TooLargeError
        return data


class StrictHeader(tarfile.TarInfo):
    """The header of a member. If it is damaged or missing, reading fails.

    tarfile itself takes it for the end of the archive, which is two blocks of zeros (POSIX pax, ustar format).
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> StrictHeader:
        """Return the header in a block. Raises ReadError, and HeaderError for a block of zeros."""
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if buf and not any(buf):
                raise
            raise tarfile.ReadError(f"damaged header: {error}") from error


def _opener(magic: bytes) -> Callable[[IO[bytes]], IO[bytes]]:
    """Return the function that decompresses a file with the given first bytes."""
    import bz2
    import gzip
    import lzma

    from zonewise.machine.zstd import zstd

    if magic.startswith(b"\x1f\x8b"):
        return lambda file: cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    if magic.startswith(b"BZh"):
        return lambda file: cast("IO[bytes]", bz2.BZ2File(file))
    if magic.startswith(b"\xfd7zXZ\0"):
        return lambda file: cast("IO[bytes]", lzma.LZMAFile(file))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return lambda file: cast("IO[bytes]", zstd.ZstdFile(file))
    return lambda file: file
