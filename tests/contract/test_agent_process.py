"""`zonewise agent` as a process: what it publishes at the API server and over HTTP, and how it stops."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
import yaml

from support.agents import GPU, NODE, NODE_PATH, Site, available, new_site
from support.kubelets import pod
from support.waiting import eventually
from zonewise_common.nrt.podfingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.agents import AgentProcess
    from support.api import Json


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """Return one site for all tests of this file; each test leaves its kubelet without pods."""
    with new_site() as made:
        yield made


@pytest.fixture(scope="module")
def agent(site: Site) -> AgentProcess:
    """Return an agent that has published, and scans everything ten times a second."""
    made = site.start("--interval", "100ms", "--log-level", "debug")
    made.until(lambda: site.available() is not None)
    made.until(lambda: made.page("/readyz")[0] == 200)
    return made


# --- what it publishes


def test_topology(site: Site, agent: AgentProcess) -> None:
    """The Node owns the object, which describes each zone as the kubelet and the machine do."""
    topology = site.topology()
    assert topology is not None
    node = site.api.get(NODE_PATH).ok()
    (owner,) = topology["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Node", NODE, node["metadata"]["uid"])
    assert available(topology) == (15, 16)
    assert available(topology, GPU) == (2, 2)
    # one entry for the apply, and one for the patches if another test has caused any
    assert {entry["manager"] for entry in topology["metadata"]["managedFields"]} == {"zonewise-agent"}


def test_pods_that_come_and_go(site: Site, agent: AgentProcess) -> None:
    """The agent soon publishes each start and end of a pod."""
    site.kubelet.start(pod("a", 4, gpus=1))
    try:
        agent.until(lambda: (site.available(), site.available(GPU)) == ((11, 16), (1, 2)))
        assert fingerprint([("lab", "a")]) in json.dumps(site.topology())
    finally:
        site.kubelet.stop("uid-a")
    agent.until(lambda: (site.available(), site.available(GPU)) == ((15, 16), (2, 2)))


def test_labels(site: Site, agent: AgentProcess) -> None:
    """The agent's labels are on the Node beside those of other clients; an annotation lists the agent's own."""
    agent.until(lambda: "zonewise.dev/zones" in site.labels())
    metadata = site.api.get(NODE_PATH).ok()["metadata"]
    assert metadata["labels"]["zonewise.dev/zones"] == "2"
    assert metadata["labels"]["example.com/rack"] == "r1"
    ours = metadata["annotations"]["zonewise.dev/labels"].split(",")
    assert set(metadata["labels"]) == {*ours, "example.com/rack"}


def test_quiet_times(site: Site, agent: AgentProcess) -> None:
    """The agent writes nothing while nothing changes, however often it scans."""
    agent.until(lambda: "zonewise.dev/zones" in site.labels())
    before = site.version()
    rounds = agent.metric('zonewise_wakeups_total{reason="timer"}')
    agent.until(lambda: agent.metric('zonewise_wakeups_total{reason="timer"}') >= rounds + 5)
    assert site.version() == before


def test_a_second_agent_writes_nothing_new(site: Site, agent: AgentProcess) -> None:
    """The published objects are correct, so an agent has nothing to write after a restart or a rollout."""
    agent.until(lambda: "zonewise.dev/zones" in site.labels())
    before = site.version()
    other = site.start()
    other.until(lambda: other.page("/readyz")[0] == 200)
    assert other.end() == 0
    assert site.version() == before


# --- what it serves


def test_pages(site: Site, agent: AgentProcess) -> None:
    """The agent serves health, readiness, Prometheus metrics, and its whole state as JSON."""
    assert agent.page("/healthz") == (200, "ok\n")
    status, text = agent.page("/readyz")
    assert status == 200
    assert text.startswith("ok: the last successful publish is ")
    assert agent.metric("zonewise_kubelet_ready") == 1
    assert agent.metric('zonewise_zone_available{resource="cpu",zone="0"}') == 15
    assert agent.metric("zonewise_cores") == 16
    state = json.loads(agent.page("/debug/state")[1])
    assert state["node"] == NODE
    assert state["problems"] == {"machine": state["problems"]["machine"], "kubelet": []}
    assert state["kubeletConfig"]["topology_manager_policy"] == "best-effort"
    assert state["nodeResourceTopology"]["zones"] == (site.topology() or {})["zones"]
    assert agent.page("/nothing")[0] == 404


def test_every_line_of_the_log_is_json(site: Site, agent: AgentProcess) -> None:
    """Even at log level debug, every library logs JSON."""
    for record in agent.records():
        assert set(record) == {"time", "level", "logger", "message"}, record
    assert "ERROR" not in agent.said


# --- how it ends


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_ends_it_cleanly(site: Site, number: signal.Signals) -> None:
    """The agent exits with status 0, logs a last message, and leaves the published object."""
    agent = site.start()
    agent.until_said("starts")
    assert agent.end(number) == 0
    assert agent.records()[-1]["message"] == f"the agent of node {NODE} stops"
    eventually(lambda: site.topology() is not None)


def test_a_change_just_before_the_stop_is_published() -> None:
    """The agent finishes pending writes before it stops. No other agent can have published the change on this site."""
    with new_site() as site:
        agent = site.start()
        agent.until(lambda: agent.page("/readyz")[0] == 200)
        site.kubelet.start(pod("last", 2))
        agent.until(lambda: agent.metric('zonewise_zone_available{resource="cpu",zone="0"}') == 13)
        assert agent.end() == 0
        assert site.available() == (13, 16)


# --- what else it writes


def test_output(site: Site) -> None:
    """The file contains the published objects: the NodeResourceTopology and the Node's labels, as YAML."""
    path = site.directory / "out.yaml"
    agent = site.start("--output", str(path))
    agent.until(path.exists)
    agent.until(lambda: agent.page("/readyz")[0] == 200)
    assert agent.end() == 0
    topology, node = documents(path.read_text())
    assert topology["zones"] == (site.topology() or {})["zones"]
    assert node["metadata"]["labels"].items() <= site.labels().items()


def test_one_shot(site: Site) -> None:
    """The status is 0 once everything is published, and nothing is served."""
    agent = site.start("--oneshot")
    assert agent.ended() == 0
    assert site.available() == (15, 16)
    assert "serving" not in agent.said


def test_the_node_selects_the_configuration_of_its_gpus(site: Site, tmp_path: Path) -> None:
    """The label of the device plugin's config manager selects it, and overrides the setting."""
    (tmp_path / "shared").write_text("{}")
    label = "nvidia.com/device-plugin.config"
    site.api.patch(NODE_PATH, {"metadata": {"labels": {label: "absent"}}}).ok()
    try:
        agent = site.start("--oneshot", "--gfd-config-file", str(tmp_path), "--gfd-config-name", "shared")
        assert agent.ended() == 0
    finally:
        site.api.patch(NODE_PATH, {"metadata": {"labels": {label: None}}}).ok()
    assert r"the directory contains no configuration \"absent\", but shared" in agent.said


def test_dry_run(site: Site) -> None:
    """The agent prints what it would write, and needs no API server."""
    before = site.version()
    agent = site.start("--dry-run", "--oneshot", "--api-server", "http://127.0.0.1:1")
    assert agent.ended() == 0
    topology, node = documents(agent.printed)
    assert available(topology) == (15, 16)
    assert (node["kind"], node["metadata"]["name"]) == ("Node", NODE)
    assert site.version() == before


def test_dry_run_without_reports(site: Site, tmp_path: Path) -> None:
    """The agent needs neither a kubelet nor an API server, and prints what it would publish with these settings."""
    nowhere = ("--kubelet-dir", str(tmp_path), "--podresources-socket", str(tmp_path / "no.sock"))
    flags = ("--dry-run", "--oneshot", "--api-server", "http://127.0.0.1:1", "--publish-nrt", "false", *nowhere)
    agent = site.start(*flags, "--publish-labels", "nodefeature")
    assert agent.ended() == 0
    [feature] = documents(agent.printed)
    assert feature["kind"] == "NodeFeature"
    numa = feature["spec"]["features"]["attributes"]["memory.numa"]["elements"]
    assert feature["spec"]["labels"]["zonewise.dev/zones"] == numa["node_count"]
    assert "kubelet" not in agent.said


def test_a_copied_tree_has_no_instructions_of_this_machine(site: Site, tmp_path: Path) -> None:
    """The root is a directory with another machine's files, so the agent does not execute CPUID."""
    nowhere = ("--kubelet-dir", str(tmp_path), "--podresources-socket", str(tmp_path / "no.sock"))
    flags = ("--dry-run", "--oneshot", "--api-server", "http://127.0.0.1:1", "--publish-nrt", "false", *nowhere)
    every_bit = f"tuple(CpuidLeaf(*leaf, *[{(1 << 32) - 1}] * 4) for leaf in m._LEAVES)"
    program = (
        "import zonewise.machine.collectors.cpu.cpus as c, zonewise.machine.collectors.cpu.cpuid_device as m; "
        "from zonewise.machine.model.cpu import CpuidLeaf; "
        f"c.read_cpuid = lambda cpu: {every_bit}"
    )
    agent = site.start(*flags, "--publish-labels", "nodefeature", program=program)
    assert agent.ended() == 0
    [feature] = documents(agent.printed)
    assert "CETSS" not in feature["spec"]["features"]["flags"]["cpu.cpuid"]["elements"]


def documents(text: str) -> list[Json]:
    return list(yaml.safe_load_all(text))
