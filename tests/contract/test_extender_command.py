"""The command line of `zonewise scheduler --extender-only`: mistakes, ports in use, and the help."""

from __future__ import annotations

import socket

import pytest

from support.cli_runner import CommandResult, run_all
from support.extender import new_cluster, running_extender


def run(*flags: str) -> CommandResult:
    """Run the command until it ends."""
    return run_all([["scheduler", *flags]])[0]


MISTAKES: list[tuple[list[str], str]] = [
    ([], "--extender-only is required"),
    (["--extender-only", "--listen", "here"], "--listen: 'here' must be ADDRESS:PORT"),
    (["--extender-only", "--listen", ""], "listen: must not be empty: the extender needs an address"),
    (["--extender-only", "--assume-timeout", "soon"], "--assume-timeout: 'soon' must be a duration"),
    (["--extender-only", "--unreported-nodes", "maybe"], "must be one of allow, allow-unaligned, deny"),
    (["--extender-only", "--config", "/nowhere.yaml"], "/nowhere.yaml: no such file"),
    (["--extender-only", "--kubeconfig", "/nowhere"], "/nowhere"),
    (["--extender-only", "--api-server", "x:y"], "apiServer"),
    (["--extender-only", "--api-server", "http://127.0.0.1:1", "--tls-cert", "/nowhere.pem"], "tls.key"),
    (
        ["--extender-only", "--api-server", "http://127.0.0.1:1", "--tls-cert", "/a.pem", "--tls-key", "/b.pem"],
        "tls: /a.pem, /b.pem cannot be used",
    ),
    (
        ["--extender-only", "--api-server", "http://127.0.0.1:1", "--misprediction-dir", "/dev/null/x"],
        "mispredictionDir: /dev/null",
    ),
    (["--replay", "/nowhere.json"], "/nowhere.json: cannot be read"),
    (["--replay", __file__], "not a case of a misprediction"),
    (["--extender-only", "--unknown"], "--unknown"),
]


@pytest.fixture(scope="module")
def results() -> list[CommandResult]:
    return run_all([["scheduler", *flags] for flags, _ in MISTAKES])


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[words for _, words in MISTAKES])
def test_errors(number: int, results: list[CommandResult]) -> None:
    """An error is one line, with status 2."""
    result = results[number]
    assert (result.status, result.out) == (2, "")
    assert MISTAKES[number][1] in result.err.splitlines()[-1]
    assert "Traceback" not in result.err


@pytest.mark.parametrize("flag", ["--listen", "--metrics-listen"])
def test_a_port_in_use(flag: str) -> None:
    """If the port is in use, the command fails soon after the start, and leaves no process."""
    with socket.create_server(("127.0.0.1", 0)) as allocated_amounts:
        address = f"127.0.0.1:{allocated_amounts.getsockname()[1]}"
        flags = {"--listen": "127.0.0.1:0", "--metrics-listen": "127.0.0.1:0", flag: address}
        result = run(
            "--extender-only", "--api-server", "http://127.0.0.1:1", *(part for pair in flags.items() for part in pair)
        )
    assert result.status == 2
    assert result.err.splitlines()[-1].endswith(f"cannot serve on {address}: Address already in use")


def test_help() -> None:
    """The help names every flag."""
    status, printed, _ = run("--help")
    assert status == 0
    for flag in ("--extender-only", "--replay", "--unreported-nodes", "--tls-client-ca", "ZONEWISE_LISTEN"):
        assert flag in printed


def test_no_metrics_server() -> None:
    """An empty --metrics-listen disables the server."""
    with new_cluster() as world, running_extender("--api-server", world.server.url, "--metrics-listen", "") as extender:
        extender.until(lambda: "the extender starts" in extender.said)
        assert extender.said.count("serving on port") == 1
        assert extender.terminate() == 0
