"""`zonewise up` as a process: it becomes ready, stops on Ctrl-C, and leaves neither a port nor a file."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from typing import TYPE_CHECKING

import pytest

from support.programs import Watched, terminal_signals

if TYPE_CHECKING:
    from pathlib import Path


class _Up(Watched):
    """A process of `zonewise up`, with its temporary files in a separate directory."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        log = directory / "up.log"
        temporary = directory / "tmp"
        temporary.mkdir()
        command = [sys.executable, "-m", "zonewise", "up", "--port", "0", "--status-port", "0", *arguments]
        environment = {**os.environ, "TMPDIR": str(temporary)}
        with log.open("wb") as output, terminal_signals():
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment)
        super().__init__(process, log)

    def url(self, name: str) -> str:
        (found,) = re.findall(rf"^  {name} +(http://127.0.0.1:\d+/?)$", self.said, re.MULTILINE)
        return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_it(tmp_path: Path, number: signal.Signals) -> None:
    up = _Up(tmp_path, "--nodes", "2xgb200")
    try:
        up.until(lambda: "Ctrl-C ends" in up.said)
        server, page = up.url("API server"), up.url("page")
        with urllib.request.urlopen(f"{server}/api/v1/nodes") as response:  # noqa: S310 -- our own URL
            assert [node["metadata"]["name"] for node in json.load(response)["items"]] == ["gb200-0", "gb200-1"]
        (kubeconfig,) = (tmp_path / "tmp").glob("*.kubeconfig")
        assert json.loads(kubeconfig.read_text())["clusters"][0]["cluster"]["server"] == server
        assert f"export KUBECONFIG={kubeconfig}" in up.said
        up.process.send_signal(number)
        assert up.process.wait(60) == 0
    finally:
        up.process.kill()
        up.process.wait()
    assert up.said.rstrip().endswith("ending ...")
    assert "Traceback" not in up.said
    assert list((tmp_path / "tmp").iterdir()) == []
    for url in (server, page):
        with socket.socket() as connection:
            assert connection.connect_ex(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))) != 0


def test_a_signal_stops_it_while_it_starts(tmp_path: Path) -> None:
    """Ctrl-C arrives once before it is ready; status 1 is that of an interpreter that has not reached our code."""
    up = _Up(tmp_path, "--nodes", "500")
    try:
        up.process.send_signal(signal.SIGINT)
        assert up.process.wait(60) in {0, 1, 130, -signal.SIGINT}
    finally:
        up.process.kill()
        up.process.wait()
    assert list((tmp_path / "tmp").iterdir()) == []
