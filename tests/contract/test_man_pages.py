"""The man pages are generated from the commands, and groff prints no warnings."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tools.generate_manpages import main, pages
from zonewise.command_registry import installed_commands

if TYPE_CHECKING:
    from pathlib import Path


def test_each_command_has_a_page() -> None:
    assert set(pages("1")) == {"zonewise.1", *(f"zonewise-{name}.1" for name in installed_commands())}
    page = pages("1")["zonewise-queue.1"]
    assert "there is no such queue" in page
    assert "\\fB\\-\\-all\\-namespaces\\fR" in page


def test_pages_have_what_scripts_need() -> None:
    """Pages have the options of subcommands, and the exit statuses that are not errors."""
    rules, health = pages("1")["zonewise-rules.1"], pages("1")["zonewise-health.1"]
    assert "\\fB\\-\\-node\\-feature\\fR" in rules
    assert ".TP\n1\n" in rules
    assert ".TP\n1\na device is degraded or has failed\n" in health


def test_pages_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "man1")]) == 0
    assert {file.name for file in (tmp_path / "man1").iterdir()} == set(pages())
    assert main([]) == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_groff_prints_no_warnings() -> None:
    text = "".join(pages("1").values())
    command = ["groff", "-man", "-ww", "-z", "-Tutf8"]
    result = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
