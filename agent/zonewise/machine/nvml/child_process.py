"""Queries NVML in a child process, with a deadline.

A GPU or a driver that blocks leaves the calling process in an uninterruptible sleep inside the kernel (state D), where
not even SIGKILL ends it. So discovery never calls NVML in its own process. A child calls it, with a deadline, and a
child that cannot be ended is abandoned. While it lives no second child is started, which would only block as well.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from subprocess import Popen

    from zonewise.machine.nvml.facts import NvmlFacts

DEADLINE = 10.0
"""Seconds. The first query after boot initializes the GPUs if persistence mode is off: 1 to 2 s for each, several at
once."""

REGISTRATION_INTERVAL = 60.0
"""Seconds between two queries while a GPU registers with its NVLink fabric, which may take minutes after the boot."""
FAILURE_INTERVAL = 600.0
"""Seconds between two queries after one that failed, or that lacked a GPU: in a container without NVML every query
fails."""

_MODULE = "zonewise.machine.nvml"
_LAST_WORDS = 200  # maximum characters of a failed child's output in the message
_GRACE = 1.0  # seconds until a killed process must be gone; one in uninterruptible sleep is not


class NvmlChild:
    """Queries NVML through a child process, one at a time."""

    def __init__(
        self,
        command: Sequence[str] = (),
        *,
        deadline: float = DEADLINE,
        environment: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Set `command` to replace our own module, and `environment` to add variables, for tests."""
        # -P: no file in the working directory is imported
        self._command = tuple(command) or (sys.executable, "-P", "-m", _MODULE)
        self._deadline = deadline
        self._environment = dict(environment or {})
        self._clock = clock
        self._interval: float | None = None
        self._left: Popen[str] | None = None
        self._timeouts = 0

    @property
    def attempt(self) -> tuple[int, bool, int]:
        """Return a value that changes as soon as another query may yield more.

        It may do so after a query that failed or exceeded the deadline, and while a GPU registers with its fabric.
        """
        return self._timeouts, self._lives(), int(self._clock() // self._interval) if self._interval else 0

    def repeat_later(self) -> None:
        """Let `attempt` change after FAILURE_INTERVAL, because the result of the last query lacks a GPU."""
        self._interval = self._interval or FAILURE_INTERVAL

    def query(self) -> NvmlFacts:
        """Return NVML's facts; after the deadline, facts that contain only the problem."""
        if self._left is not None and self._lives():
            return _problem(
                f"the nvidia driver has not responded to process {self._left.pid} yet, so it is not queried again"
            )
        from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

        try:
            child = Popen(
                self._command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, encoding="utf-8", errors="backslashreplace",
                env=self._child_environment(),
            )  # fmt: skip
        except OSError as error:
            self._interval = FAILURE_INTERVAL
            return _problem(f"NVML cannot be queried: {self._command[0]}: {error.strerror}")
        try:
            output, errors = child.communicate(timeout=self._deadline)
        except TimeoutExpired:
            return self._end(child)
        facts = _child_facts(child.returncode, output, errors)
        self._interval = _interval(facts)
        return facts

    def _lives(self) -> bool:
        """Return whether an abandoned child still lives; collect its exit status if it does not."""
        if self._left is not None and self._left.poll() is not None:
            self._left = None
        return self._left is not None

    def _end(self, child: Popen[str]) -> NvmlFacts:
        """End a child that exceeded the deadline, or abandon it if it cannot be ended."""
        from subprocess import TimeoutExpired

        self._timeouts += 1
        child.kill()
        problem = f"the nvidia driver did not respond within {self._deadline:g} s"
        try:
            child.communicate(timeout=_GRACE)
        except TimeoutExpired:
            for pipe in (child.stdout, child.stderr):
                if pipe is not None:
                    pipe.close()
            # its descendants may keep the pipes open after the child has ended
            if child.poll() is None:
                self._left = child
                problem += f", and process {child.pid} of the query cannot be ended because it hangs in the kernel"
        return _problem(problem)

    def _child_environment(self) -> dict[str, str]:
        """Return our environment, with which the child finds the packages that we found, installed or not."""
        path = os.pathsep.join(os.path.abspath(directory) for directory in sys.path)
        return {**os.environ, "PYTHONPATH": path, **self._environment}


def _interval(facts: NvmlFacts) -> float | None:
    """Return the seconds after which another query may yield more; None if the facts are complete."""
    if facts.problem is not None:
        return FAILURE_INTERVAL
    is_registering = any(gpu.fabric is not None and gpu.fabric.is_registering for gpu in facts.gpus)
    return REGISTRATION_INTERVAL if is_registering else None


def _child_facts(status: int, output: str, errors: str) -> NvmlFacts:
    from zonewise.machine.nvml.facts_json import from_json

    lines = output.splitlines()
    try:
        # some libraries print, so the facts are the last line
        return from_json(lines[-1] if lines and not status else "")
    except ValueError:
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        words = " ".join((errors.strip() or output.strip()).splitlines()[-1:])[-_LAST_WORDS:]
        return _problem(f"the query of NVML failed: the process {how}" + (f": {words}" if words else ""))


def _problem(text: str) -> NvmlFacts:
    from zonewise.machine.nvml.facts import NvmlFacts

    return NvmlFacts(problem=text)


CHILD = NvmlChild()
"""The instance that discovery uses: each scan must see a process blocked since an earlier scan."""
