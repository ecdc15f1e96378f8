"""The shared libraries that ELF files need (elf(5), 64 bits, little-endian), to check that an image lacks no library.

The machine that builds an image for another architecture cannot run it.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB = 1, 5


def missing_libraries(trees: Iterable[Path]) -> set[tuple[str, str]]:
    """Return (file, library) for each library that a file needs and no tree contains, by name."""
    files = {path: path.relative_to(tree).as_posix() for tree in trees for path in tree.rglob("*")}
    names = {path.name for path in files}
    regular = ((path, name) for path, name in files.items() if path.is_file() and not path.is_symlink())
    return {(name, library) for path, name in regular for library in needed_libraries(path) if library not in names}


def needed_libraries(file: Path) -> list[str]:
    """Return the names of the libraries that a file needs; none if it is not an ELF file or is linked statically."""
    with file.open("rb") as stream:
        if stream.read(6) != b"\x7fELF\x02\x01":
            return []
    content = file.read_bytes()
    segments = list(_segments(content))
    dynamic = [(offset, size) for kind, offset, _, size in segments if kind == _PT_DYNAMIC]
    if not dynamic:
        return []
    [(start, size)] = dynamic
    entries = list(struct.iter_unpack("<QQ", content[start : start + size]))
    [strings] = [value for tag, value in entries if tag == _DT_STRTAB]
    # the table's address, converted to the offset in the file
    [table] = [
        strings - address + offset
        for kind, offset, address, length in segments
        if kind == _PT_LOAD and address <= strings < address + length
    ]
    return [_text(content, table + value) for tag, value in entries if tag == _DT_NEEDED]


def _segments(content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """Yield the type, offset, address and size in the file of each program header."""
    (table,) = struct.unpack_from("<Q", content, 32)
    size, count = struct.unpack_from("<HH", content, 54)
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from("<IIQQQQ", content, table + index * size)
        yield kind, offset, address, length


def _text(content: bytes, start: int) -> str:
    return content[start : content.index(b"\0", start)].decode()
