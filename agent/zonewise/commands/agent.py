"""`zonewise agent`: publishes what this node is made of and has left, and keeps it right."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from zonewise.commands import Command, CommandError
from zonewise.daemon.settings import DEFAULT_FILE, OPTIONS, PREFIX, Settings, SettingsError, read_settings

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

_CONFIG_VARIABLE = f"{PREFIX}CONFIG"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments: every setting that a file can hold, and the ways to run once or without writing."""
    add = parser.add_argument
    parser.epilog = (
        f"Each setting is also read from the environment ({PREFIX}INTERVAL for --interval) and from the file, where it "
        "is written in camelCase (interval, publish.labels). Flags win over the environment, it over the file."
    )
    add("--config", metavar="FILE", help=f"settings, re-read when the file changes (default: ${_CONFIG_VARIABLE}, or "
        f"{DEFAULT_FILE} where it is)")  # fmt: skip
    add("--oneshot", action="store_true", help="scan and publish once, and end: status 0, or 1 where that failed")
    add("--dry-run", action="store_true", help="write nothing to the API server; show what would be written")
    add("--output", metavar="FILE", help='write the objects there too, at each change, as YAML ("-": standard output)')
    for option in OPTIONS:
        add(option.flag, dest=option.field, metavar=option.metavar, help=option.help)


def run(arguments: Namespace) -> int:
    """Run until stopped, or once. Raises CommandError."""
    try:
        from zonewise.daemon.main import Mode, run_agent
    except ImportError as error:
        raise CommandError(f"the agent's libraries are missing: {error}; pip install 'zonewise[agent]'") from None
    path = arguments.config or os.environ.get(_CONFIG_VARIABLE)

    def read() -> Settings:
        flags = {option.field: getattr(arguments, option.field) for option in OPTIONS}
        return read_settings(flags, os.environ, _content(path), path or DEFAULT_FILE)

    output = arguments.output or ("-" if arguments.dry_run else "")
    mode = Mode(oneshot=arguments.oneshot, dry_run=arguments.dry_run, output=output)
    try:
        return run_agent(read, path or DEFAULT_FILE, mode)
    except SettingsError as error:
        raise CommandError(str(error)) from error


COMMAND = Command("publish what this node has, zone by zone, and keep that right", add_arguments, run)


def _content(path: str | None) -> str | None:
    """Return the text of the settings file; None where there is none and none was named."""
    try:
        with open(path or DEFAULT_FILE, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        if path is None:
            return None
        raise SettingsError(f"{path}: no such file") from None
    except OSError as error:
        raise SettingsError(f"{path or DEFAULT_FILE}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsError(f"{path or DEFAULT_FILE}: is no text: {error}") from error
