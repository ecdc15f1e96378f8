"""The newest release; the working tree must be applicable over it."""

from __future__ import annotations

import os
import subprocess

import pytest

from support.snapshots import PROJECT


def newest_release() -> str:
    """Return the release's tag, or the commit in $ZONEWISE_UPGRADE_FROM; skip the test if there is neither."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    result = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    tag = os.environ.get("ZONEWISE_UPGRADE_FROM") or result.stdout.strip()
    if not tag:
        pytest.skip("no release yet: `git describe` finds no tag v*; ZONEWISE_UPGRADE_FROM names another commit")
    return tag
