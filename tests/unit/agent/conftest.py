"""Fixtures for the tests of the command line: a server to show, and an environment without settings."""

from __future__ import annotations

import pytest

from support.disk import lay_out
from support.trees import server_tree


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the root of a server with GPUs and HCAs."""
    return str(lay_out(server_tree(), tmp_path_factory.mktemp("server")))


@pytest.fixture
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the environment of the test run from affecting the output."""
    for name in ("NODE_NAME", "NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)
