"""The newest release, over which this tree must be applicable."""

from __future__ import annotations

import os
import subprocess

import pytest

from support.snapshots import PROJECT


def newest_release() -> str:
    """Return its tag, or the commit of $ZONEWISE_UPGRADE_FROM; skip the test where there is none."""
    command = ["git", "describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"]
    result = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)
    tag = os.environ.get("ZONEWISE_UPGRADE_FROM") or result.stdout.strip()
    if not tag:
        pytest.skip("no release yet: `git describe` finds no tag v*; ZONEWISE_UPGRADE_FROM names another commit")
    return tag
