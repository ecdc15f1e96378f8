"""`zonewise completion`: prints the script with which a shell completes commands and options."""

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
        "Save the script where the shell looks for completions. For bash, that is "
        "~/.local/share/bash-completion/completions/zonewise. For zsh, it is the file _zonewise in a folder of $fpath. "
        "For fish, it is ~/.config/fish/completions/zonewise.fish. Status 0: the script was printed."
    )
    parser.add_argument("shell", choices=SHELLS, help="shell to print the script for")


def run(arguments: Namespace) -> int:
    """Print the script."""
    script = completion_script(arguments.shell, PROGRAM, command_specs(installed_commands(), PROGRAM))
    write(script, STANDARD_OUTPUT)
    return 0


COMMAND = Command("print a completion script for bash, zsh or fish", add_arguments, run)
