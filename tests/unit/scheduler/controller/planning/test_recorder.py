"""The entries for the planner are recorded, even if the file accepts only part of a write."""

from __future__ import annotations

import errno
import io

from zonewise_scheduler.controller.planning.recorder import Recorder


class Disk(io.BytesIO):
    """A file that accepts few bytes per write, and no more than its disk has space for."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: object) -> int:
        """Write a part of the data. Raises OSError if no space is left."""
        part = bytes(memoryview(data)[: min(5, self.room)])  # pyright: ignore[reportArgumentType]
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(part)
        return super().write(part)


def test_a_line_is_complete_even_if_the_file_accepts_only_parts_of_it() -> None:
    disk = Disk(1000)
    Recorder(disk, {"recording": 1}).record({"entry": "confirm", "key": "ns/w"})
    assert disk.getvalue() == b'{"recording":1}\n{"entry":"confirm","key":"ns/w"}\n'


def test_nothing_is_written_after_a_line_that_a_full_disk_has_truncated() -> None:
    disk = Disk(20)
    recorder = Recorder(disk, {"recording": 1})
    recorder.record({"entry": "confirm", "key": "ns/w"})
    disk.room = 1000
    recorder.record({"entry": "finish", "key": "ns/w"})
    assert disk.getvalue() == b'{"recording":1}\n{"en'
