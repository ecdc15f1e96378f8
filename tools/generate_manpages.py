"""Generates the man pages from the definitions of the commands: `python -m tools.generate_manpages DIRECTORY`.

They are not committed: the build generates them (`make man`), so they cannot be outdated.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

from zonewise.command_registry import PROGRAM, installed_commands
from zonewise_common import __version__
from zonewise_common.cli.man_page import command_page, program_page
from zonewise_common.cli.option_specs import command_specs


def pages(version: str = __version__) -> dict[str, str]:
    """Return the pages by file name: zonewise.1, zonewise-queue.1."""
    with mock.patch.dict(os.environ, {"COLUMNS": "100"}):  # some commands wrap their help to the terminal
        commands = command_specs(installed_commands(), PROGRAM)
    named = {f"{PROGRAM}-{command.name}.1": command_page(PROGRAM, command, version) for command in commands}
    return {f"{PROGRAM}.1": program_page(PROGRAM, commands, version), **named}


def main(arguments: list[str]) -> int:
    """Write the pages to a directory, and return the exit status."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m tools.generate_manpages DIRECTORY\n")
        return 2
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (directory / name).write_text(text)
    sys.stderr.write(f"wrote {len(pages())} pages to {directory}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
