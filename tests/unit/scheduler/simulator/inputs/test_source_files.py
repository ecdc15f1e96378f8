"""Sources of a simulation as bytes: text with and without a byte order mark, plain and compressed."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import pytest

from zonewise_scheduler.simulator.inputs.source_files import InputError, open_source

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "; MaxProcs: 8\njobs: [{user: Zoë}]\n"


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_byte_order_mark_is_no_text(tmp_path: Path, compress: type[bytes], encoding: str) -> None:
    """Programs on Windows write one."""
    file = tmp_path / "log.swf"
    file.write_bytes(compress(TEXT.encode(encoding)))
    with open_source(str(file)) as content:
        assert content.peek(1).startswith(b";")
        assert content.read() == TEXT.encode()


@pytest.mark.parametrize("content", [b"", b"\xef", b"\xef\xbb"])
def test_a_shorter_file_is_read_as_it_is(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "log.swf"
    file.write_bytes(content)
    with open_source(str(file)) as opened:
        assert opened.read() == content


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_text_with_two_bytes_for_each_character_is_an_error(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "log.swf"
    file.write_bytes(f"\ufeff{TEXT}".encode(encoding))
    with pytest.raises(InputError, match=r"log\.swf: cannot be read: it is UTF-16 text"), open_source(str(file)):
        pass
