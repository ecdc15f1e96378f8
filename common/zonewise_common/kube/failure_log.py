"""Log a task that is repeated until it succeeds: one line for each kind of failure, and one once it works again.

The log level "debug" shows all failures.
"""

from __future__ import annotations

import logging


class FailureLog:
    """The kinds of failures of a task since its last success. Only the thread that runs the task may use it."""

    def __init__(self, log: logging.Logger, failure: str, success: str) -> None:
        """Set the logger, the words before each error, and the message of the first success after a failure."""
        self._log = log
        self._failure = failure
        self._success = success
        self._kinds: set[type[Exception]] = set()

    def add(self, error: Exception) -> None:
        """Log a failure, as a warning if it is the first of its kind."""
        level = logging.DEBUG if type(error) in self._kinds else logging.WARNING
        self._kinds.add(type(error))
        self._log.log(level, "%s: %s", self._failure, error)

    def end(self) -> None:
        """Record that the task has succeeded."""
        if self._kinds:
            self._kinds.clear()
            self._log.info("%s", self._success)
