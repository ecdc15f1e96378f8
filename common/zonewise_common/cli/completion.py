"""Scripts that complete commands, options and their choices in bash, zsh and fish.

They are generated from the same definitions as --help, and start no program while a user types.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_common.cli.option_specs import CommandSpec, OptionSpec

SHELLS = ("bash", "zsh", "fish")


def completion_script(shell: str, program: str, commands: Sequence[CommandSpec]) -> str:
    """Return the completion script of a shell for a program. Raises ValueError for an unknown shell."""
    writers = {"bash": _bash, "zsh": _zsh, "fish": _fish}
    if shell not in writers:
        raise ValueError(f"unknown shell {shell}: the shells are {', '.join(SHELLS)}")
    return writers[shell](program, commands)


# --- bash


def _bash(program: str, commands: Sequence[CommandSpec]) -> str:
    function = f"_{_identifier(program)}"
    files = f"{function}_files"
    cases = [line for command in commands for line in _bash_command(command, files)]
    names = " ".join(command.name for command in commands)
    return "\n".join([
        f"# bash completion of {program}",
        f"{files}() {{",
        "  local IFS=$'\\n'  # a file's name may have blanks",
        '  COMPREPLY=($(compgen -f -- "$1"))',
        "}",
        f"{function}() {{",
        "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options='' values='' files=''",
        "  COMPREPLY=()",
        "  # bash splits --output=yaml into three words",
        "  if [[ $word == '=' ]]; then word=''; elif [[ $before == '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi",
        "  if ((COMP_CWORD == 1)); then",
        f'    COMPREPLY=($(compgen -W "{names} --help --version" -- "$word"))',
        "    return",
        "  fi",
        '  case "${COMP_WORDS[1]} $before" in',
        *cases,
        "  esac",
        '  case "${COMP_WORDS[1]}" in',
        *(
            f"    {command.name}) options='{_flags(command)}'; values='{_first_values(command)}'; "
            f"files={_takes_files(command)} ;;"
            for command in commands
        ),
        "  esac",
        '  if [[ $word == -* ]]; then COMPREPLY=($(compgen -W "$options" -- "$word"))',
        '  elif [[ -n $values ]] && ((COMP_CWORD == 2)); then COMPREPLY=($(compgen -W "$values" -- "$word"))',
        f'  elif [[ -n $files ]]; then {files} "$word"; fi',
        "}",
        f"complete -o filenames -F {function} {program}",
        "",
    ])  # fmt: skip


def _bash_command(command: CommandSpec, files: str) -> list[str]:
    """Return the cases that complete the value of an option; `files` is the function that completes file names."""
    lines: list[str] = []
    for option in command.options:
        if not option.flags or not option.metavar:
            continue
        words = "|".join(f'"{command.name} {flag}"' for flag in option.flags)
        if option.choices:
            reply = f'COMPREPLY=($(compgen -W "{" ".join(option.choices)}" -- "$word")); return'
        elif option.takes_file:
            reply = f'{files} "$word"; return'
        else:
            reply = "return"
        lines.append(f"    {words}) {reply} ;;")
    return lines


def _flags(command: CommandSpec) -> str:
    return " ".join(flag for option in command.options for flag in option.flags)


def _first_values(command: CommandSpec) -> str:
    """Return the choices of the first positional argument."""
    return " ".join(next((option.choices for option in command.options if not option.flags), ()))


def _takes_files(command: CommandSpec) -> str:
    return "yes" if any(not option.flags and option.takes_file for option in command.options) else "''"


# --- zsh


def _zsh(program: str, commands: Sequence[CommandSpec]) -> str:
    function = f"_{_identifier(program)}"
    lines = [f"#compdef {program}", "", f"{function}() {{", "  local -a commands", "  commands=("]
    lines += [f"    {_zsh_quoted(command.name + ':' + command.help)}" for command in commands]
    lines += ["  )", "  if (( CURRENT == 2 )); then", "    _describe command commands", "    return", "  fi",
              "  local name=$words[2]", "  shift words", "  (( CURRENT-- ))", '  case "$name" in']  # fmt: skip
    for command in commands:
        specs = " ".join(map(_zsh_quoted, _zsh_specs(command)))
        lines.append(f"    {command.name}) _arguments -s -S {specs} ;;")
    start = f'if [[ $funcstack[1] == {function} ]]; then {function} "$@"; else compdef {function} {program}; fi'
    lines += ["  esac", "}", "", start, ""]
    return "\n".join(lines)


def _zsh_specs(command: CommandSpec) -> list[str]:
    """Return the specs of _arguments; only the last positional argument may be repeated."""
    flagged = [spec for option in command.options if option.flags for spec in _zsh_option(option)]
    positional = [
        f":{_zsh_text(option.metavar)}:{_zsh_values(option)}" for option in command.options if not option.flags
    ]
    return [*flagged, *positional[:-1], *(f"*{spec}" for spec in positional[-1:])]


def _zsh_option(option: OptionSpec) -> list[str]:
    value = f":{_zsh_text(option.metavar)}:{_zsh_values(option)}" if option.metavar else ""
    return [f"*{flag}[{_zsh_text(option.help)}]{value}" for flag in option.flags]


def _zsh_values(option: OptionSpec) -> str:
    if option.choices:
        return f"({' '.join(option.choices)})"
    return "_files" if option.takes_file else " "


def _zsh_text(text: str) -> str:
    return re.sub(r"([\[\]:\\])", r"\\\1", text)


def _zsh_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish


def _fish(program: str, commands: Sequence[CommandSpec]) -> str:
    names = " ".join(command.name for command in commands)
    lines = [f"# fish completion of {program}", f"complete -c {program} -f"]
    for command in commands:
        lines.append(f"complete -c {program} -n 'not __fish_seen_subcommand_from {names}' -a {command.name} "
                     f"-d {_fish_quoted(command.help)}")  # fmt: skip
        condition = f"-n '__fish_seen_subcommand_from {command.name}'"
        for option in command.options:
            if option.flags:
                lines.append(f"complete -c {program} {condition} {_fish_option(option)}")
            elif option.takes_file:
                lines.append(f"complete -c {program} {condition} -F")
            elif option.choices:
                values = " ".join(option.choices)
                lines.append(f"complete -c {program} -n '__fish_seen_subcommand_from {command.name}; and not "
                             f"__fish_seen_subcommand_from {values}' -a '{values}'")  # fmt: skip
    return "\n".join([*lines, ""])


def _fish_option(option: OptionSpec) -> str:
    words = [f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags]
    if option.choices:
        words.append(f"-x -a {_fish_quoted(' '.join(option.choices))}")
    elif option.metavar:
        words.append("-r -F" if option.takes_file else "-x")
    return " ".join([*words, f"-d {_fish_quoted(option.help)}"])


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _identifier(program: str) -> str:
    return re.sub(r"[^a-zA-Z0-9]", "_", program)
