"""`zonewise adopt`: hands the queues of a stopped Kueue over to the controller, or back, while jobs keep running."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable

    from zonewise_scheduler.controller.kueue.handover import Handover, HandoverOptions
    from zonewise_scheduler.controller.settings import ControllerSettings
    from zonewise_scheduler.controller.types import Write

_NOT_DONE = 1
_MAX_NAMES = 3
_MAX_OBSTACLES = 50


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    parser.epilog = (
        "Stop Kueue first: `kubectl scale -n kueue-system deployment kueue-controller-manager --replicas 0`. The "
        "command starts and stops no job, and each of its steps can be repeated. Status 0: done; 1: not done, for the "
        "reasons on standard error."
    )
    add("--back", action="store_true", help="give the queues back to Kueue; start Kueue afterwards")
    add("--dry-run", action="store_true", help="print what would change, and change nothing")
    add("--force", action="store_true", help="adopt despite the obstacles that are printed; jobs may be stopped")
    add("--config", metavar="FILE", default="", help="settings file of the controller: its `jobKinds` are handed "
        "over too, and its other settings are compared with Kueue's (default: none)")  # fmt: skip
    add("--namespace", metavar="NAME", default="zonewise", help="namespace of the controller (default: zonewise)")
    add("--kueue-lease", metavar="NAMESPACE/NAME", default="", help="Lease of Kueue's leader election (default: "
        "kueue-system/c1f6bfd2.kueue.x-k8s.io)")  # fmt: skip
    add_cluster_arguments(parser, namespaced=False, all_namespaces=False, read_api=False)


def run(arguments: Namespace) -> int:
    """Print the changes, and apply them. Raises CommandError."""
    with require_extra("scheduler"):
        from zonewise_common.service.options import SettingsError
        from zonewise_scheduler.controller.jobs.registry import adapters_of_settings
        from zonewise_scheduler.controller.kueue.handover import Handover, HandoverError
    options = _options(arguments)
    try:
        settings = _settings(arguments.config)
        adapters = adapters_of_settings(settings.job_kinds)
        with open_session(arguments) as session:
            handover = Handover(session.client, adapters, options, time.sleep)
            handover.read()
            return _give_back(handover, arguments) if arguments.back else _adopt(handover, arguments, settings)
    except SettingsError as error:
        raise CommandError(str(error)) from error
    except HandoverError as error:
        sys.stderr.write(f"zonewise: {error}\n")
        return _NOT_DONE


COMMAND = Command("take over the queues of a stopped Kueue, or give them back", add_arguments, run)


def _options(arguments: Namespace) -> HandoverOptions:
    from zonewise_scheduler.controller.kueue.handover import HandoverOptions
    from zonewise_scheduler.controller.kueue.kueue_lease import DEFAULT_LEASE, parse_lease_name

    try:
        lease = parse_lease_name(arguments.kueue_lease or DEFAULT_LEASE)
    except ValueError as error:
        raise CommandError(f"--kueue-lease: {error}") from error
    assert lease is not None  # noqa: S101 -- the text is not empty
    return HandoverOptions(lease, arguments.namespace)


def _settings(config: str) -> ControllerSettings:
    """Return the settings of the controller. Raises SettingsError."""
    from zonewise_common.service.options import read_settings_file
    from zonewise_scheduler.controller.settings import DEFAULT_FILE, read_settings

    content = read_settings_file(config, DEFAULT_FILE) if config else None
    return read_settings({}, {}, content, config)


def _adopt(handover: Handover, arguments: Namespace, settings: ControllerSettings) -> int:
    if handover.kueue_runs():
        sys.stderr.write(
            "zonewise: Kueue is running: it renews its Lease. Scale its Deployment to 0, and run this command again\n"
        )
        return _NOT_DONE
    for note in handover.notes(settings._asdict()):
        sys.stderr.write(f"note: {note}\n")
    obstacles = handover.obstacles(time.time(), settings.managed_namespaces)
    for obstacle in obstacles[:_MAX_OBSTACLES]:
        sys.stderr.write(f"obstacle: {obstacle}\n")
    if len(obstacles) > _MAX_OBSTACLES:
        sys.stderr.write(f"and {len(obstacles) - _MAX_OBSTACLES} more obstacles\n")
    _print_changes(change for step in handover.adoption() for change in step)
    if obstacles and not arguments.force:
        sys.stderr.write("zonewise: nothing was changed: remove the obstacles, or use --force\n")
        return _NOT_DONE
    if not arguments.dry_run:
        handover.adopt()
        write("The queues are adopted.\n", STANDARD_OUTPUT)
    return 0


def _give_back(handover: Handover, arguments: Namespace) -> int:
    _print_changes(change for step in handover.giving_back() for change in step)
    if not arguments.dry_run:
        handover.give_back()
        write("The queues belong to Kueue again: start it now.\n", STANDARD_OUTPUT)
    return 0


def _print_changes(writes: Iterable[Write]) -> None:
    """Print a line for each kind of object and change, with the first few names."""
    names: dict[tuple[str, str], list[str]] = {}
    for change in writes:
        key = change.key
        name = key.namespaced_name if key.namespace else key.name
        names.setdefault((key.resource.kind, change.purpose), []).append(name)
    if not names:
        write("There is nothing to change.\n", STANDARD_OUTPUT)
        return
    rows = [("CHANGE", "KIND", "NUMBER", "OBJECTS")]
    for (kind, purpose), objects in names.items():
        more = f", and {len(objects) - _MAX_NAMES} more" if len(objects) > _MAX_NAMES else ""
        rows.append((purpose, kind, str(len(objects)), ", ".join(objects[:_MAX_NAMES]) + more))
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    for row in rows:
        write("  ".join([*(row[i].ljust(widths[i]) for i in range(3)), row[3]]) + "\n", STANDARD_OUTPUT)
