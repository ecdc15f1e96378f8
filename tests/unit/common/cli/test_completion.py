"""Completion scripts: completions in bash, and the presence of each option in the scripts for zsh and fish."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from zonewise_common.cli.command import Command
from zonewise_common.cli.completion import SHELLS, completion_script
from zonewise_common.cli.option_specs import command_specs

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from pathlib import Path


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="what it's made of: a [file]")
    parser.add_argument("-o", "--output", choices=("json", "yaml"), help="the form")
    parser.add_argument("-n", "--namespace", metavar="NAME", help="where")
    parser.add_argument("--secret", help="==SUPPRESS==")


def _subcommands(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(metavar="try|lint")
    commands.add_parser("try").add_argument("file", metavar="FILE")
    commands.add_parser("lint").add_argument("--strict", action="store_true", help="no warnings")


def _no_arguments(parser: ArgumentParser) -> None:
    """Declare no arguments."""


def _run(arguments: Namespace) -> int:
    return 0


COMMANDS = command_specs(
    {
        "show": Command("show it", _arguments, _run),
        "sum": Command("add it up", _no_arguments, _run),
        "rules": Command("try rules", _subcommands, _run),
    },
    "prog",
)


def completed(words: list[str], directory: Path) -> list[str]:
    """Return bash's completions of the last word."""
    script = completion_script("bash", "prog", COMMANDS)
    line = " ".join(f"'{word}'" for word in words)
    code = f'{script}\nCOMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _prog; printf "%s\\n" "${{COMPREPLY[@]}}"'
    command = ["bash", "--norc", "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True, cwd=directory)
    assert result.stderr == ""
    return result.stdout.strip().splitlines()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["prog", "s"], ["show", "sum"]),
        (["prog", "sh"], ["show"]),
        (["prog", "show", "--o"], ["--output"]),
        (["prog", "show", "-"], ["-h", "--help", "-o", "--output", "-n", "--namespace"]),
        (["prog", "show", "-o", ""], ["json", "yaml"]),
        (["prog", "show", "--output", "y"], ["yaml"]),
        (["prog", "show", "-n", ""], []),
        (["prog", "show", ""], ["a.sh"]),
        (["prog", "sum", ""], []),
        (["prog", "none", "-"], []),
        (["prog", "rules", ""], ["try", "lint"]),
        (["prog", "rules", "l"], ["lint"]),
        (["prog", "rules", "try", ""], ["a.sh"]),
        (["prog", "rules", "lint", "--s"], ["--strict"]),
    ],
)
def test_bash(words: list[str], offered: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.sh").touch()
    assert completed(words, tmp_path) == offered


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_keeps_blanks_in_names_of_files(tmp_path: Path) -> None:
    (tmp_path / "my batch.sh").touch()
    assert completed(["prog", "show", "my"], tmp_path) == ["my batch.sh"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_each_option_is_in_the_script(shell: str, tmp_path: Path) -> None:
    script = completion_script(shell, "prog", COMMANDS)
    assert "secret" not in script
    for word in ("show", "sum", "output", "namespace", "json", "yaml", "try lint", "strict"):
        assert word in script
    if (program := shutil.which(shell)) is not None:
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


def test_quotes_and_brackets_are_escaped() -> None:
    assert "what it'\\''s made of" not in completion_script("fish", "prog", COMMANDS)
    assert completion_script("zsh", "prog", COMMANDS).count("[the form]") == 2


def test_an_unknown_shell() -> None:
    with pytest.raises(ValueError, match="unknown shell tcsh: the shells are bash, zsh, fish"):
        completion_script("tcsh", "prog", COMMANDS)
    assert len({completion_script(shell, "prog", COMMANDS) for shell in SHELLS}) == len(SHELLS)
