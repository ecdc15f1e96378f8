"""A peer's program as a process, which must not end before the measurement does."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

from benchmarks.support.agent_testbed import PROJECT, responds

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence
    from pathlib import Path

sys.path.insert(0, str(PROJECT / "tests"))

_LOG_CHARACTERS = 4000


@contextlib.contextmanager
def running_program(command: Sequence[str], log: Path, health_url: str) -> Generator[None]:
    """Run a program until the block ends; wait until its health URL responds with 200.

    Raises AssertionError with the end of its log if it ends earlier.
    """
    from support.programs import RestartableProcess
    from support.waiting import eventually

    with RestartableProcess(command, log) as process:
        eventually(lambda: not process.is_alive or responds(health_url))
        assert process.is_alive, log.read_text()[-_LOG_CHARACTERS:]
        yield
        assert process.is_alive, log.read_text()[-_LOG_CHARACTERS:]
