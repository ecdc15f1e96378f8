"""`zonewise agent`: continuously publishes the hardware and the available resources of this node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zonewise.daemon.settings import DEFAULT_FILE, OPTIONS, Settings, read_settings
from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.imports import without_collections
from zonewise_common.service.options import CONFIG_VARIABLE, PREFIX, SettingsError, read_settings_file

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments: every setting that a file can contain, and the options to run once or without writing."""
    add = parser.add_argument
    parser.epilog = (
        f"Each setting can also come from the environment ({PREFIX}INTERVAL for --interval) or from the file, where "
        "its name is in camelCase (interval, publish.labels). Flags win over the environment, and the environment over "
        "the file."
    )
    add("--config", metavar="FILE", help=f"settings file, reread when it changes (default: ${CONFIG_VARIABLE}, or "
        f"{DEFAULT_FILE} if it exists)")  # fmt: skip
    add(
        "--oneshot",
        action="store_true",
        help="scan and publish once, then exit with status 0, or 1 if that failed; with --publish-nrt=false no kubelet "
        "is needed",
    )
    add("--dry-run", action="store_true", help="show what would be written to the API server, and write nothing")
    add(
        "--output",
        metavar="FILE",
        help='also write the objects to this file as YAML, each time they change ("-": standard output)',
    )
    OPTIONS.add_arguments(parser)


def run(arguments: Namespace) -> int:
    """Run until stopped, or once. Raises CommandError."""
    with require_extra("agent"), without_collections():
        from zonewise.daemon.main import RunMode, run_agent
    path = arguments.config or os.environ.get(CONFIG_VARIABLE)

    def read() -> Settings:
        content = read_settings_file(path, DEFAULT_FILE)
        return read_settings(OPTIONS.flag_values(arguments), os.environ, content, path or DEFAULT_FILE)

    output = arguments.output or ("-" if arguments.dry_run else "")
    mode = RunMode(oneshot=arguments.oneshot, dry_run=arguments.dry_run, output=output)
    try:
        return run_agent(read, path or DEFAULT_FILE, mode)
    except SettingsError as error:
        raise CommandError(str(error)) from error


COMMAND = Command("publish this node's resources by zone, and keep them up to date", add_arguments, run)
