"""The program around the loop: opens the components, runs once or until stopped, and reloads settings."""

from __future__ import annotations

import logging
import os
import sys
import time
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, NamedTuple

from zonewise.daemon.components import (
    make_agent,
    open_events,
    open_health,
    open_kubelet,
    open_publishing,
    open_rules,
    open_server,
)
from zonewise.daemon.events import Reason
from zonewise.daemon.events.wake import Signals, Wake
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.status import Status
from zonewise_common.service import logs
from zonewise_common.service.api_client import open_client
from zonewise_common.service.options import SettingsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.daemon.agent import Agent
    from zonewise.daemon.components import Publishers, RuleWatches
    from zonewise.daemon.health_monitor import HealthMonitor
    from zonewise.daemon.settings import Settings
    from zonewise_common.kube.client import Client

log = logging.getLogger(__name__)

ONESHOT_TIMEOUT = 10.0
"""Seconds within which a single run must have published: a kubelet that has just started needs a few seconds."""
SHUTDOWN_TIMEOUT = 1.0
"""Seconds for requests in progress at shutdown, of the 5 that the DaemonSet's pod has."""

_SWITCH_INTERVAL = 0.0005
"""Seconds for which one thread may hold the interpreter while another waits. With the default of 5 ms, a probe would
wait while data from a client without credentials is read."""
_FAILED = 1
_OR_DRY = ", or use --dry-run to write nothing"


class RunMode(NamedTuple):
    """How to run, in addition to the settings."""

    oneshot: bool = False
    dry_run: bool = False
    """Whether to write nothing to the API server and serve nothing."""
    output: str = ""
    """A file to write the objects to; "-" for standard output, empty for none."""


class _Program(NamedTuple):
    """State that lives as long as the process, through all reloads of the settings."""

    read: Callable[[], Settings]
    settings_file: str
    mode: RunMode
    status: Status
    meters: AgentMetrics


def run_agent(read: Callable[[], Settings], settings_file: str, mode: RunMode) -> int:
    """Run, and return the program's exit status. Raises SettingsError if the initial settings are unusable."""
    status, meters = Status(time.monotonic), AgentMetrics()
    meters.watch(status)
    program = _Program(read, settings_file, mode, status, meters)
    stamp, settings = _file_stamp(settings_file), read()
    sys.setswitchinterval(_SWITCH_INTERVAL)
    logs.configure_logging(settings.log_level, settings.log_format)
    if mode.oneshot:
        return _run_once(program, settings)
    with closing(Signals()) as signals:
        return _run_until_stopped(program, settings, stamp, signals)


def _run_until_stopped(program: _Program, settings: Settings, stamp: object, signals: Signals) -> int:
    """Run with the settings and reload them when they change; if new settings are unusable, the old ones remain in
    force.
    """
    last_good: Settings | None = None
    while True:
        try:
            reasons = _run_settings(program, settings, stamp, signals)
            last_good = settings
        except SettingsError as error:
            if last_good in (None, settings):
                raise
            settings = _keep_settings(program, error, last_good)
            continue
        if Reason.STOP in reasons:
            return 0
        stamp = _file_stamp(program.settings_file)
        try:
            settings = program.read()
        except SettingsError as error:
            settings = _keep_settings(program, error, last_good)


def _run_settings(program: _Program, settings: Settings, stamp: object, signals: Signals) -> frozenset[Reason]:
    """Run with one version of the settings, read at the given stamp; return the reasons for its end."""
    logs.configure_logging(settings.log_level, settings.log_format)
    program.meters.settings.info({"hash": settings.digest()})
    with ExitStack() as stack:
        wake = stack.enter_context(closing(Wake()))
        health = stack.enter_context(open_health(settings, lambda: wake(Reason.HEALTH)))
        agent, publishing, client, _ = _open_components(program, settings, stack, wake, health.monitor)
        if client is not None:
            stack.enter_context(open_server(settings, client, program.status, program.meters))
        events = stack.enter_context(open_events(settings, program.settings_file, [signals, wake, *health.channels]))
        if _file_stamp(program.settings_file) != stamp:  # changed before the watch began
            return frozenset({Reason.RELOAD})
        log.info("the agent of node %s starts", settings.node_name)
        reasons = agent.run(events)
        publishing.wait(SHUTDOWN_TIMEOUT)
        log.info("the agent of node %s %s", settings.node_name, "stops" if Reason.STOP in reasons else "reloads")
        return reasons


def _run_once(program: _Program, settings: Settings) -> int:
    """Publish once; return 0, or 1 if that was impossible in time."""
    end = time.monotonic() + ONESHOT_TIMEOUT
    reasons = frozenset({Reason.START})
    with ExitStack() as stack:
        wake = stack.enter_context(closing(Wake()))
        health = stack.enter_context(open_health(settings, lambda: None))
        agent, publishing, _, rules = _open_components(program, settings, stack, wake, health.monitor)
        if rules is not None:
            rules.wait_known(ONESHOT_TIMEOUT / 2)
        while (pause := agent.run_once(reasons)) is not None and (left := end - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            reasons = frozenset({Reason.RETRY})
        done = publishing.wait(max(0.0, end - time.monotonic()))
        if done and pause is None and program.status.age() is not None:
            return 0
    for problem in program.status.snapshot.problems:
        log.error("%s", problem)
    log.error("not everything could be read and published within %g s", ONESHOT_TIMEOUT)
    return _FAILED


def _open_components(
    program: _Program, settings: Settings, stack: ExitStack, wake: Wake, health: HealthMonitor | None
) -> tuple[Agent, Publishers, Client | None, RuleWatches | None]:
    """Create the loop and its components; the stack closes them."""
    client = None
    if not program.mode.dry_run:
        client = stack.enter_context(closing(open_client(settings.api_server, settings.kubeconfig, _OR_DRY)))
    kubelet = None
    if settings.publish_nrt or not program.mode.oneshot:  # the metrics of a long-running agent show usage as well
        kubelet = open_kubelet(settings, program.meters)
        stack.callback(kubelet.close)
    output, status, meters = program.mode.output, program.status, program.meters
    publishing = stack.enter_context(open_publishing(settings, client, output, status, meters))
    rules = stack.enter_context(open_rules(settings, client, wake, meters))
    agent = make_agent(settings, kubelet, client, publishing, status, meters, rules, health)
    return agent, publishing, client, rules


def _keep_settings(program: _Program, error: SettingsError, settings: Settings) -> Settings:
    """Log that new settings cannot be used, and return the old ones."""
    program.meters.reload_errors.inc()
    log.error("new settings were rejected, and the old ones remain in force: %s", error)
    return settings


def _file_stamp(path: str) -> object:
    """Return a value that differs when a file was written or replaced; None if there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
