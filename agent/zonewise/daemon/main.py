"""The program around the loop: starts the parts, runs once or until it is told to stop, takes new settings."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon import logs
from zonewise.daemon.events import Reason
from zonewise.daemon.events.wake import Signals
from zonewise.daemon.metrics.meters import Meters
from zonewise.daemon.parts import make_agent, open_client, open_events, open_kubelet, open_publishing, open_server
from zonewise.daemon.settings import SettingsError
from zonewise.daemon.status import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.daemon.agent import Agent
    from zonewise.daemon.parts import Publishing
    from zonewise.daemon.settings import Settings

log = logging.getLogger(__name__)

ONESHOT_PATIENCE = 10.0
"""Seconds in which a single run must have published: a kubelet that has just started needs a few."""
FAREWELL = 2.0
"""Seconds that what is under way to the API server gets at the end, of the 5 that the DaemonSet's pod has."""

_FAILED = 1


class Mode(NamedTuple):
    """How to run, beside the settings."""

    oneshot: bool = False
    dry_run: bool = False
    """Write nothing to the API server, and serve nothing."""
    output: str = ""
    """A file to write the objects to; "-" for standard output, empty for none."""


def run_agent(read: Callable[[], Settings], settings_file: str, mode: Mode) -> int:
    """Run, and return the program's status. Raises SettingsError where the first settings cannot be used."""
    settings = read()
    logs.set_up(settings.log_level, settings.log_format)
    status, meters = Status(time.monotonic), Meters()
    meters.watch(status)
    signals = Signals()
    try:
        while (result := _generation(settings, settings_file, mode, status, meters, signals)) is None:
            settings = _reread(read, settings, meters)
    finally:
        signals.close()
    return result


def _generation(
    settings: Settings, settings_file: str, mode: Mode, status: Status, meters: Meters, signals: Signals
) -> int | None:
    """Run with one state of the settings; return the program's status, or None for new settings."""
    with ExitStack() as stack:
        client = None if mode.dry_run else open_client(settings)
        if client is not None:
            stack.callback(client.close)
        kubelet = open_kubelet(settings, meters)
        stack.callback(kubelet.close)
        publishing = stack.enter_context(open_publishing(settings, client, mode.output, status, meters))
        agent = make_agent(settings, kubelet, client, publishing, status, meters)
        if mode.oneshot:
            return _once(agent, publishing, status)
        stack.enter_context(open_server(settings, client, status, meters))
        events = stack.enter_context(open_events(settings, settings_file, [signals]))
        log.info("the agent of node %s starts", settings.node_name)
        reasons = agent.run(events)
        publishing.wait(FAREWELL)
        log.info("the agent of node %s %s", settings.node_name, "stops" if Reason.STOP in reasons else "reloads")
        return 0 if Reason.STOP in reasons else None


def _once(agent: Agent, publishing: Publishing, status: Status) -> int:
    """Publish once; return 0, or 1 where that was not possible in time."""
    end = time.monotonic() + ONESHOT_PATIENCE
    reasons = frozenset({Reason.START})
    while (pause := agent.look(reasons)) is not None and time.monotonic() + pause < end:
        time.sleep(pause)
        reasons = frozenset({Reason.RETRY})
    done = publishing.wait(max(0.0, end - time.monotonic()))
    if done and pause is None and status.age() is not None:
        return 0
    for problem in status.snapshot.problems:
        log.error("%s", problem)
    log.error("not all could be found out and published within %.0f s", ONESHOT_PATIENCE)
    return _FAILED


def _reread(read: Callable[[], Settings], settings: Settings, meters: Meters) -> Settings:
    """Return the new settings; the old ones where the new ones cannot be used."""
    try:
        found = read()
    except SettingsError as error:
        meters.reload_errors.inc()
        log.error("new settings are refused, the old ones stay: %s", error)  # noqa: TRY400 -- no traceback: user input
        return settings
    logs.set_up(found.log_level, found.log_format)
    return found
