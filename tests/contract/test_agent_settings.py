"""Settings of `zonewise agent`: changes apply at run time, bad settings are rejected, and errors name the cause."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, NamedTuple

import pytest

from support.agents import NODE_PATH, TOPOLOGY, AgentProcess, Site, new_site
from support.cli_runner import CommandResult, run_all
from support.kubelets import pod
from support.trees import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with new_site() as made:
        yield made


class Configured:
    """An agent with a settings file."""

    def __init__(self, site: Site, text: str, *flags: str) -> None:
        self.path = site.directory / f"agent-{os.urandom(4).hex()}.yaml"
        self.path.write_text(text)
        self.agent: AgentProcess = site.start("--config", str(self.path), *flags)
        self.agent.until_said("starts")

    def change(self, text: str) -> None:
        """Replace the file, as an editor does."""
        temporary = self.path.with_suffix(".new")
        temporary.write_text(text)
        temporary.replace(self.path)

    def until_reloaded(self, times: int = 1) -> None:
        """Wait until the agent has reloaded its settings `times` times."""
        self.agent.until(lambda: self.agent.said.count("starts") >= 1 + times)

    def errors(self) -> list[str]:
        return [record["message"] for record in self.agent.records() if record["level"] == "error"]


def test_a_changed_file(site: Site) -> None:
    """A new interval, log level and exclusions apply without a restart, and can be reverted."""
    site.kubelet.start(pod("seen", 2))
    site.kubelet.start(pod("hidden", 4, memory=GIB))
    configured = Configured(site, "interval: 50s\n")
    agent = configured.agent
    try:
        agent.until(lambda: site.available() == (9, 16))
        configured.change("interval: 100ms\nlogLevel: debug\nexclude: {resources: [memory], pods: [{name: hidden}]}\n")
        configured.until_reloaded()
        agent.until(lambda: site.available("memory") == ())
        assert site.available() == (9, 16)
        assert allocatable(site) == (11, 16)
        agent.until(lambda: agent.metric('zonewise_wakeups_total{reason="timer"}') >= 2)
        agent.until_said('"level": "debug"')
        configured.change("")
        configured.until_reloaded(2)
        agent.until(lambda: allocatable(site) == (15, 16))
        assert len(site.available("memory") or ()) == 2
        assert agent.metric("zonewise_settings_errors_total") == 0
    finally:
        site.kubelet.stop("uid-seen")
        site.kubelet.stop("uid-hidden")
    assert agent.end() == 0


def allocatable(site: Site) -> tuple[int, ...]:
    zones = [zone for zone in (site.topology() or {})["zones"] if zone["type"] == "Node"]
    return tuple(
        int(amount["allocatable"]) for zone in zones for amount in zone["resources"] if amount["name"] == "cpu"
    )


def test_sighup(site: Site) -> None:
    """SIGHUP reloads everything, and writes nothing if nothing has changed."""
    configured = Configured(site, "interval: 50s\n")
    agent = configured.agent
    agent.until(lambda: agent.page("/readyz")[0] == 200)
    before = site.version()
    agent.send(signal.SIGHUP)
    configured.until_reloaded()
    assert agent.metric('zonewise_wakeups_total{reason="start"}') >= 1
    site.kubelet.start(pod("a", 2))
    agent.until(lambda: site.available() == (13, 16))
    site.kubelet.stop("uid-a")
    agent.until(lambda: site.available() == (15, 16))
    assert int(site.version()) == int(before) + 2
    assert agent.end() == 0


def test_each_metric_is_exported_once_after_a_reload(site: Site) -> None:
    """Metrics of the client from before the reload are no longer exported."""
    configured = Configured(site, "interval: 50s\n")
    agent = configured.agent
    agent.send(signal.SIGHUP)
    configured.until_reloaded()
    types = [line.split()[2] for line in agent.page("/metrics")[1].splitlines() if line.startswith("# TYPE ")]
    assert "zonewise_api_request_failures_total" in types
    assert sorted(types) == sorted(set(types))
    assert agent.end() == 0


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("intervall: 3s\n", "intervall: unknown key; did you mean interval?"),
        ("a: b: c\n", "no YAML: "),
        ("notifyFile: /proc/none/here\n", "notifyFile: /proc/none/here: No such file or directory"),
    ],
)
def test_settings_that_cannot_be_used(site: Site, text: str, reason: str) -> None:
    """The agent rejects them, logs and counts this once, and uses the old settings until the file is corrected."""
    configured = Configured(site, "interval: 100ms\n")
    agent = configured.agent
    configured.change(text)
    agent.until_said("new settings were rejected, and the old ones remain in force: ")
    configured.until_reloaded()
    agent.until(lambda: agent.metric("zonewise_settings_errors_total") == 1)
    rounds = agent.metric('zonewise_wakeups_total{reason="timer"}')
    agent.until(lambda: agent.metric('zonewise_wakeups_total{reason="timer"}') >= rounds + 2)
    (said,) = configured.errors()
    assert reason in said
    configured.change("interval: 200ms\n")
    configured.until_reloaded(2)
    assert len(configured.errors()) == 1
    assert agent.end() == 0


def test_a_port_in_use(site: Site) -> None:
    """Settings that are valid in themselves may be unusable on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        agent = site.start("--listen", address)
        assert agent.ended() == 2
        assert agent.said == f"zonewise: error: cannot serve on {address}: Address already in use\n"


def test_labels_that_are_no_longer_wanted(site: Site) -> None:
    """An agent removes its own labels from the Node, also those of an earlier agent, and no others."""
    first = site.start()
    first.until(lambda: first.page("/readyz")[0] == 200)
    assert first.end() == 0
    stale = {"zonewise.dev/gone": "1", "example.com/rack": "r1", "zonewise.dev/others": "2"}
    ours = site.api.get(NODE_PATH).ok()["metadata"]["annotations"]["zonewise.dev/labels"]
    annotations = {"zonewise.dev/labels": f"{ours},zonewise.dev/gone"}
    site.api.patch(NODE_PATH, {"metadata": {"labels": stale, "annotations": annotations}}).ok()
    second = site.start()
    second.until(lambda: "zonewise.dev/gone" not in site.labels())
    labels = site.labels()
    assert (labels["zonewise.dev/others"], labels["example.com/rack"]) == ("2", "r1")
    assert second.end() == 0


def test_disabled_objects_are_not_published(site: Site) -> None:
    """If both objects are disabled, the agent writes neither of them; everything else works."""
    site.api.delete(TOPOLOGY)
    before = site.version()
    agent = site.start("--publish-nrt", "false", "--publish-labels", "off")
    agent.until(lambda: agent.metric('zonewise_zone_available{resource="cpu",zone="0"}') == 15)
    agent.until(lambda: agent.page("/readyz")[0] == 200)
    assert agent.end() == 0
    assert site.version() == before


# --- errors: one line each, with status 2

USAGE = "see `zonewise agent --help`"
NO_CLUSTER = "KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set"
HINT = "set it with --kubeconfig or --api-server, or use --dry-run to write nothing"


MISTAKES: list[tuple[list[str], str]] = [
    (["--interval", "soon"], '--interval: \'soon\' must be a duration, such as "30s", "5m" or "500ms"'),
    (["--bogus"], f"unrecognized arguments: --bogus; {USAGE}"),
    (["--interval"], f"argument --interval: expected one argument; {USAGE}"),
    (["--publish-labels", "some"], "--publish-labels: 'some' must be one of auto, nodefeature, node, off"),
    (["--interval", "5m"], "interval: 300 s must be less than readinessLimit (180 s): "),
    (["--config", "{}/none.yaml"], "{}/none.yaml: no such file"),
    (["--config", "{}"], "{}: cannot be read: Is a directory"),
    (["--config", "{}/binary"], "{}/binary: is not text: 'utf-8' codec can't decode byte 0xff in position 0: "),
    (["--root", "{}/none"], "root {}/none: No such file or directory"),
    (["--api-server", "server"], "apiServer: 'server' is not a URL of an API server: http://HOST[:PORT] or "),
    (["--kubelet-config", "http://k/configz"], "kubeletConfig: http://k/configz: must be an https URL, "),
    (["--tls-cert", "{}/c", "--tls-key", "{}/k"], "tls: {}/c, {}/k cannot be used: No such file or directory"),
    (["--tls-cert", "{}/c"], "tls.cert and tls.key must be set together: one of them is missing"),
    (["--notify-file", "{}/binary/file"], "notifyFile: {}/binary/file: File exists"),
    (["--api-server", ""], f"no API server: not in a cluster: {NO_CLUSTER}; outside of a cluster, {HINT}"),
]


class Mistakes(NamedTuple):
    """The output of an agent for each mistake."""

    directory: Path
    """Directory of the files that the flags name."""
    results: list[CommandResult]


@pytest.fixture(scope="module")
def mistakes(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Mistakes:
    directory = tmp_path_factory.mktemp("mistakes")
    (directory / "binary").write_bytes(b"\xff\xfe")
    commands = [
        ["agent", *site.flags(), *(flag.replace("{}", str(directory)) for flag in flags)] for flags, _ in MISTAKES
    ]
    return Mistakes(directory, run_all(commands))


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[" ".join(flags) for flags, _ in MISTAKES])
def test_mistakes(mistakes: Mistakes, number: int) -> None:
    result = mistakes.results[number]
    assert (result.status, result.out) == (2, "")
    (line,) = [line for line in result.err.splitlines() if not line.startswith("{")]
    assert line.startswith(f"zonewise: error: {MISTAKES[number][1].replace('{}', str(mistakes.directory))}")


def test_a_mistake_in_the_environment(site: Site) -> None:
    agent = site.start(ZONEWISE_LOG_LEVEL="loud")
    assert agent.ended() == 2
    assert agent.said == (
        "zonewise: error: environment: ZONEWISE_LOG_LEVEL: 'loud' must be one of debug, info, warning, error\n"
    )


@pytest.mark.parametrize("columns", ["40", "80", "200"])
def test_help(site: Site, columns: str) -> None:
    """The help fits terminals of any width, and lists every way to set an option."""
    agent = site.start("--help", COLUMNS=columns)
    assert agent.ended() == 0
    text = " ".join(agent.printed.split())
    assert "Flags win over the environment" in text
    assert "--readiness-limit DURATION" in text
