"""`zonewise completion` covers every command and its options."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from support.command_line import run, run_rejected
from zonewise.command_registry import DEPRECATED, installed_commands


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_command_is_in_the_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    script = run(capsys, "completion", shell)
    for name in installed_commands():
        assert name in script
    for name in DEPRECATED:
        assert name not in script
    assert "gpus-per-node" in script
    assert "mail-type" not in script  # options without a meaning are not completed


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ('-o ""', ["table", "wide", "json", "yaml", "name"]),
        ("--output =", ["table", "wide", "json", "yaml", "name"]),
        ("--output = ya", ["yaml"]),
    ],
)
def test_bash_offers_the_formats(capsys: pytest.CaptureFixture[str], words: str, offered: list[str]) -> None:
    """`=` separates words in bash, also within `--output=yaml`."""
    script = run(capsys, "completion", "bash")
    line = f"COMP_WORDS=(zonewise queue {words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))"
    code = f'{script}\n{line}; _zonewise; echo "${{COMPREPLY[*]}}"'
    result = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == offered


def test_an_unknown_shell(capsys: pytest.CaptureFixture[str]) -> None:
    assert "invalid choice: 'tcsh'" in run_rejected(capsys, "completion", "tcsh")
