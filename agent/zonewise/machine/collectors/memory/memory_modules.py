"""Memory modules: the content of each slot, according to the firmware's tables.

Since 4.2 Linux provides the tables as one file. If the module dmi-sysfs is loaded, each structure also has its own
file. Only root can read these files.
"""

from __future__ import annotations

import errno
import os
import re
from typing import TYPE_CHECKING

from zonewise.machine.collector import Collector, NoData
from zonewise.machine.collectors.memory.smbios import MEMORY_DEVICE, memory_module, structures

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from zonewise.machine.collector import Peek
    from zonewise.machine.model.host import MemoryModule
    from zonewise.machine.model.machine import Machine
    from zonewise.machine.reader import Reader

ENTRIES = "sys/firmware/dmi/entries"
TABLE = "sys/firmware/dmi/tables/DMI"

_ENTRY = re.compile(rf"{MEMORY_DEVICE}-(\d{{1,5}})")
_ABSENT = (errno.ENOENT, errno.ENOTDIR)
_FOR_ROOT = (errno.EACCES, errno.EPERM)


def _collect(read: Reader, machine: Machine) -> Machine:
    modules: list[MemoryModule] = []
    for path, structure in _structures(read):
        try:
            module = memory_module(structure)
        except ValueError as error:
            read.problem(path, str(error), "the content of the slot is unknown")
            continue
        if module is not None:
            read.source(f"memory_modules.{len(modules)}", path, module.location, "the SMBIOS structure of type 17")
            modules.append(module)
    return machine._replace(memory_modules=tuple(modules))


def _structures(read: Reader) -> Iterator[tuple[str, bytes]]:
    """Yield each structure of type 17 with the file that it is from; raise NoData if none can be read."""
    numbers = [int(match[1]) for name in read.names(ENTRIES) if (match := _ENTRY.fullmatch(name))]
    paths = [f"{ENTRIES}/{MEMORY_DEVICE}-{number}/raw" for number in numbers] or [TABLE]
    contents = {path: _content(read, path) for path in paths}
    errors = {path: content for path, content in contents.items() if isinstance(content, int)}
    if len(errors) == len(contents):
        if all(error in _FOR_ROOT for error in errors.values()):
            raise NoData("only root can read SMBIOS tables")
        if errors.get(TABLE) in _ABSENT:
            raise NoData("no SMBIOS tables")
    # drivers/firmware/dmi-sysfs.c numbers the structures of a type from 0
    errors.update({f"{ENTRIES}/{MEMORY_DEVICE}-{n}/raw": errno.ENOENT for n in _gaps(numbers)})
    for path, error in errors.items():
        read.problem(path, f"cannot be read: {os.strerror(error)}", "the content of the slot is unknown")
    for path, content in contents.items():
        if isinstance(content, bytes):
            yield from ((path, each) for each in _memory_structures(content, whole=path == TABLE))


def _gaps(numbers: list[int]) -> list[int]:
    return sorted({number - 1 for number in numbers if number > 0} - set(numbers))


def _memory_structures(content: bytes, *, whole: bool) -> Iterator[bytes]:
    if not whole:
        yield content
        return
    yield from (each for each in structures(content) if each[0] == MEMORY_DEVICE)


def _content(read: Reader, path: str) -> bytes | int:
    """Return a file's content, or the error number."""
    try:
        return read.files.read(path)
    except OSError as error:
        return error.errno or errno.EIO


def _volatile(_peek: Peek) -> Hashable:
    """Return nothing: the tables are written before the kernel starts."""
    return None


COLLECTOR = Collector(
    name="memory_modules",
    provides=("memory_modules",),
    needs=(),
    collect=_collect,
    volatile=_volatile,
)
