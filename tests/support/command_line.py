"""Runs the command line in the test's own process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise import cli

if TYPE_CHECKING:
    import pytest


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the program, which must succeed, and return its output."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    assert (status, err) == (0, "")
    return out


def run_rejected(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the program, which must fail, and return the one line of its error message."""
    status = cli.main(arguments)
    out, err = capsys.readouterr()
    assert (status, out) == (2, "")
    assert err.startswith("zonewise: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    return err.removeprefix("zonewise: error: ").rstrip("\n")
