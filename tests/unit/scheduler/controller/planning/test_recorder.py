"""What the planner is fed is recorded, whatever the file takes at once."""

from __future__ import annotations

import errno
import io

from zonewise_scheduler.controller.planning.recorder import Recorder


class Disk(io.BytesIO):
    """A file that takes few bytes at once, and no more than its disk has room for."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: object) -> int:
        """Take a part of the data. Raises OSError where there is no room."""
        part = bytes(memoryview(data)[: min(5, self.room)])  # pyright: ignore[reportArgumentType]
        if not part:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= len(part)
        return super().write(part)


def test_a_line_is_whole_though_the_file_takes_a_part_of_it_at_once() -> None:
    disk = Disk(1000)
    Recorder(disk, {"recording": 1}).record({"entry": "confirm", "key": "ns/w"})
    assert disk.getvalue() == b'{"recording":1}\n{"entry":"confirm","key":"ns/w"}\n'


def test_nothing_follows_a_line_that_a_full_disk_has_cut() -> None:
    disk = Disk(20)
    recorder = Recorder(disk, {"recording": 1})
    recorder.record({"entry": "confirm", "key": "ns/w"})
    disk.room = 1000
    recorder.record({"entry": "finish", "key": "ns/w"})
    assert disk.getvalue() == b'{"recording":1}\n{"en'
