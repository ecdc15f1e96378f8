"""How many calls of the verb bind may wait for the API server at once, so that threads remain for the other verbs.

An admission webhook that hangs keeps each binding of its namespace for 10 s. kube-scheduler binds pods in the
background. Such bindings soon occupy all threads of the server, and filter is no longer served.

A namespace therefore gets another slot only while it holds fewer slots than are free. A rejected binding costs only
time, because kube-scheduler tries the pod again.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import TYPE_CHECKING

from zonewise_common.service.request_threads import THREADS

if TYPE_CHECKING:
    from collections.abc import Generator

SLOTS = THREADS - 4
"""One thread serves only probes, and three remain for filter, prioritize and preempt."""


class TooManyBindings(Exception):
    """Too many bindings wait for the API server."""


class BindingSlots:
    """The bindings in progress by namespace. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()

    @contextlib.contextmanager
    def slot(self, namespace: str) -> Generator[None]:
        """Hold a slot while the context is entered. Raises TooManyBindings."""
        with self._lock:
            held = self._held[namespace]
            if held >= SLOTS - self._held.total():
                raise TooManyBindings(
                    f"{held} bindings of the namespace and {self._held.total()} in all wait for the API server; "
                    "check its admission webhooks"
                )
            self._held[namespace] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[namespace] -= 1
                self._held += Counter()  # drops the namespaces without bindings
