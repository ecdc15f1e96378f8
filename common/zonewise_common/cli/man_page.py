"""Man pages in the macros of man(7), generated from the same definitions as --help."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_common.cli.option_specs import CommandSpec, OptionSpec

_STATUS = re.compile(r"\bStatus (?=0:)")


def command_page(program: str, command: CommandSpec, version: str) -> str:
    """Return the man page of a command, such as "zonewise-queue(1)"."""
    name = f"{program}-{command.name}"
    text, _, statuses = _STATUS.sub("\0", command.epilog).partition("\0")
    lines = [
        *_head(name, version),
        ".SH NAME",
        f"{_text(name)} \\- {_text(command.help)}",
        ".SH SYNOPSIS",
        _text(command.usage),
        ".SH OPTIONS",
    ]
    for option in command.options:
        lines += [".TP", _option_head(option), _text(option.help)]
    if text.strip():
        lines += [".SH NOTES", _text(text.strip())]
    lines += [".SH EXIT STATUS", *_statuses(statuses), ".SH SEE ALSO", f".BR {_text(program)} (1)"]
    return "\n".join(lines) + "\n"


def program_page(program: str, commands: Sequence[CommandSpec], version: str) -> str:
    """Return the man page of the program, which lists its commands."""
    lines = [
        *_head(program, version),
        ".SH NAME",
        f"{_text(program)} \\- fits jobs to hardware",
        ".SH SYNOPSIS",
        f".B {_text(program)}",
        ".I COMMAND",
        "[ARGUMENTS]",
        ".SH COMMANDS",
    ]
    for command in commands:
        lines += [".TP", f".BR {_text(f'{program}-{command.name}')} (1)", _text(command.help)]
    lines += [".SH EXIT STATUS", *_statuses("")]
    return "\n".join(lines) + "\n"


def _head(name: str, version: str) -> list[str]:
    return [
        '.\\" Generated from the definitions of the commands. Do not edit.',
        f'.TH "{_text(name.upper())}" 1 "" "zonewise {_text(version)}" "zonewise"',
        ".nh",
        ".ad l",
    ]


def _option_head(option: OptionSpec) -> str:
    value = f" \\fI{_text(option.metavar)}\\fR" if option.metavar else ""
    if not option.flags:
        return value.strip()
    return ", ".join(f"\\fB{_text(flag)}\\fR" for flag in option.flags) + value


def _statuses(text: str) -> list[str]:
    """Return the exit statuses in "0: done; 1: there is none; 2: unusable arguments", and those of every command."""
    known = {"0": "done", "2": "unusable arguments, source or destination", "130": "interrupted"}
    for part in text.strip().rstrip(".").split("; "):
        number, colon, meaning = part.partition(": ")
        if colon and number.isdecimal():
            known[number] = meaning
    return [line for number in sorted(known, key=int) for line in (".TP", number, _text(known[number]))]


def _text(text: str) -> str:
    """Return a text escaped for roff, in which a backslash, a hyphen and a leading dot have a special meaning."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped
