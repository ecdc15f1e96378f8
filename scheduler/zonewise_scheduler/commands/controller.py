"""`zonewise controller`: queues jobs, starts gangs as a whole, and explains why each job waits."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zonewise_common.cli.command import Command, CommandError, require_extra
from zonewise_common.cli.imports import without_collections
from zonewise_common.service.options import CONFIG_VARIABLE, PREFIX, SettingsError, read_settings_file
from zonewise_scheduler.controller.settings import DEFAULT_FILE, OPTIONS, read_settings

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare an argument for each setting."""
    parser.epilog = (
        f"Each setting can also come from the environment ({PREFIX}POLICY for --policy) or from the file, where its "
        "name is in camelCase (reserveAfter, tls.cert). Flags win over the environment, and the environment over the "
        "file."
    )
    parser.add_argument(
        "--config", metavar="FILE", help=f"settings file (default: ${CONFIG_VARIABLE}, or {DEFAULT_FILE} if it exists)"
    )
    OPTIONS.add_arguments(parser)


def run(arguments: Namespace) -> int:
    """Run until stopped. Raises CommandError."""
    with require_extra("scheduler"), without_collections():
        from zonewise_scheduler.controller.main import run_controller
    path = arguments.config or os.environ.get(CONFIG_VARIABLE)
    try:
        content = read_settings_file(path, DEFAULT_FILE)
        settings = read_settings(OPTIONS.flag_values(arguments), os.environ, content, path or DEFAULT_FILE)
        return run_controller(settings)
    except SettingsError as error:
        raise CommandError(str(error)) from error


COMMAND = Command("queue jobs by quota, and start each gang as a whole", add_arguments, run)
