"""The controller's page and read API for an existing cluster, read-only: a controller that never leads."""

from __future__ import annotations

import time
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import ConfigError, KubeError
from zonewise_common.kube.resources import NODES
from zonewise_common.service.clock import monotonic_clock
from zonewise_sandbox.up.ports import PortsInUse, reserve_ports
from zonewise_sandbox.up.program_threads import ProgramThread, readiness_problem
from zonewise_scheduler.controller import main as controller_main
from zonewise_scheduler.controller.settings import ControllerSettings

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Generator

SYNC_TIMEOUT = 60.0
"""Seconds within which every kind must have been listed."""
_POLL = 0.05


class ObserverError(Exception):
    """The cluster cannot be shown; the message states the reason."""


class Observer(NamedTuple):
    """The addresses of an observer of a cluster."""

    cluster_url: str
    """URL of the API server."""
    status_url: str
    """URL of the page, the read API and the metrics."""
    stop: threading.Event
    """Set to end the observer."""


@contextmanager
def open_observer(
    kubeconfig: str, context: str, port: int, stop_event: Callable[[], threading.Event]
) -> Generator[Observer]:
    """Show the cluster of a kubeconfig while the context is entered; "" selects kubectl's defaults.

    `port` is on loopback, 0 for any free one. `stop_event` returns the event that ends the wait for the first lists. It
    is called once the cluster has responded: until then, KeyboardInterrupt ends the wait. Raises ObserverError.
    """
    try:
        config = Config.from_kubeconfig(kubeconfig or None, context or None)
    except ConfigError as error:
        raise ObserverError(str(error)) from error
    with ExitStack() as stack:
        try:
            [status_port] = reserve_ports(stack, {"--status-port": port})
        except PortsInUse as error:
            raise ObserverError(str(error)) from error
        client = stack.enter_context(closing(Client(config)))
        settings = ControllerSettings(metrics_listen=f"127.0.0.1:{status_port}", kueue_lease="", leader_election=False)
        _check(client)
        stop = stop_event()

        def run(ended: threading.Event) -> int:
            return controller_main.run_until_stopped(settings, ended, monotonic_clock(), observed=client)

        with ProgramThread("controller", run) as program:
            _wait_until_synced(program, status_port, stop)
            yield Observer(config.url, f"http://127.0.0.1:{status_port}/", stop)


def _check(client: Client) -> None:
    """Raise ObserverError if nodes cannot be listed: reflectors would retry forever."""
    try:
        client.list(NODES, page=1)
    except KubeError as error:
        raise ObserverError(f"the cluster cannot be read: {error}") from error


def _wait_until_synced(program: ProgramThread, port: int, stop: threading.Event) -> None:
    deadline = time.monotonic() + SYNC_TIMEOUT
    while (problem := readiness_problem(port)) and not stop.wait(_POLL):
        _check_alive(program)
        if time.monotonic() > deadline:
            raise ObserverError(
                f"the cluster cannot be shown: {problem}; check that it serves these kinds and that you may list them"
            )
    _check_alive(program)  # otherwise another program has taken the port, and responded


def _check_alive(program: ProgramThread) -> None:
    """Raise ObserverError if the controller has ended."""
    if not program.is_alive:
        raise ObserverError(str(program.error or "the controller has ended"))
