"""`zonewise completion`: the script with which a shell completes commands and options."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.command_registry import PROGRAM, installed_commands
from zonewise_common.cli.command import Command
from zonewise_common.cli.completion import SHELLS, completion_script
from zonewise_common.cli.option_specs import command_specs
from zonewise_common.cli.output import STANDARD_OUTPUT, write

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "Save it where the shell looks: bash in ~/.local/share/bash-completion/completions/zonewise, zsh as _zonewise "
        "in a folder of $fpath, fish in ~/.config/fish/completions/zonewise.fish. Status 0: printed."
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: Namespace) -> int:
    """Print the script."""
    script = completion_script(arguments.shell, PROGRAM, command_specs(installed_commands(), PROGRAM))
    write(script, STANDARD_OUTPUT)
    return 0


COMMAND = Command("print the script of a shell that completes commands and options", add_arguments, run)
