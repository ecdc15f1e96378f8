"""Logging settings that a test changes, and that other tests in the same process must not see."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from zonewise_common.service.logs import LOGGERS

if TYPE_CHECKING:
    from collections.abc import Generator


@contextlib.contextmanager
def restored_loggers() -> Generator[None]:
    """Restore the levels and handlers of the loggers that configure_logging() changes."""
    root = logging.getLogger()
    loggers = [root, *map(logging.getLogger, LOGGERS)]
    levels, handlers = [logger.level for logger in loggers], root.handlers[:]
    yield
    root.handlers[:] = handlers
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
