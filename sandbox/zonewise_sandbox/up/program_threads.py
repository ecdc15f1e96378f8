"""Programs of zonewise that run as threads: the controller and the extender, which are normally processes."""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

_STOP_TIMEOUT = 10.0
"""Seconds that a program may take to stop."""
_PROBE_TIMEOUT = 5.0
"""Seconds to wait for the response to a probe."""


class ProgramThread:
    """Runs a program until the context ends."""

    def __init__(self, name: str, run: Callable[[threading.Event], object]) -> None:
        """Create a thread; `run` runs until the event is set."""
        self._run = run
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self.error: Exception | None = None
        """The error that ended it."""

    @property
    def is_alive(self) -> bool:
        """Return whether it is running."""
        return self._thread.is_alive()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(_STOP_TIMEOUT)

    def _main(self) -> None:
        try:
            self._run(self._stop)
        except Exception as error:  # noqa: BLE001 -- the top of a program: the main thread reports it
            self.error = error


def readiness_problem(port: int) -> str:
    """Return why the program with its status on a loopback port is not ready, from its /readyz; "" if it is ready."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PROBE_TIMEOUT)
    try:
        connection.request("GET", "/readyz")
        response = connection.getresponse()
        text = response.read().decode().strip()
        return "" if response.status == 200 else text
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
