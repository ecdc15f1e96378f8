"""`zonewise agent` while the kubelet or the API server is unavailable: it survives, catches up, and stops in time."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from support.agents import GPU, Site, new_site
from support.kubelets import pod
from zonewise_sandbox.kubelet import Faults
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from support.agents import AgentProcess

AWAY = "the kubelet's allocations cannot be read: "


@pytest.fixture
def site() -> Iterator[Site]:
    with new_site() as made:
        yield made


def published(site: Site, *flags: str) -> AgentProcess:
    """Start an agent, and wait until it has published everything."""
    agent = site.start(*flags)
    agent.until(lambda: agent.page("/readyz")[0] == 200)
    return agent


def messages(agent: AgentProcess, part: str) -> list[str]:
    return [record["message"] for record in agent.records() if part in record["message"]]


# --- the kubelet


def test_a_kubelet_that_starts_late() -> None:
    """The agent publishes once the kubelet responds, but not before. It logs the outage once, in a short line."""
    with new_site(kubelet=False) as site:
        agent = site.start()
        agent.until_said(AWAY)
        agent.until(lambda: "zonewise.dev/zones" in site.labels())
        agent.until(lambda: agent.metric('zonewise_wakeups_total{reason="retry"}') >= 2)
        assert agent.page("/healthz")[0] == 200
        assert agent.page("/readyz") == (503, "nothing has been published yet\n")
        assert site.topology() is None
        (said,) = messages(agent, AWAY)
        assert said == (
            f"{AWAY}GetAllocatableResources on {site.kubelet.socket}: cannot connect: No such file or directory"
        )
        site.kubelet.serve()
        agent.until(lambda: site.available() == (15, 16))
        agent.until_said("resolved: ")


def test_a_kubelet_that_restarts(site: Site) -> None:
    """The report stays unchanged while the kubelet is down or responds without its managers; then it is updated."""
    agent = published(site)
    before = site.version()
    site.kubelet.faults = Faults(empty_allocatable=3)
    site.kubelet.close()
    agent.until_said(AWAY)
    site.kubelet.serve()
    agent.until_said("the kubelet is not ready: ")
    assert site.version() == before
    agent.until_said("resolved: the kubelet is not ready: ")
    site.kubelet.start(pod("a", 4))
    agent.until(lambda: site.available() == (11, 16))
    assert "goaway" not in agent.said.lower()
    assert agent.end() == 0


def test_a_kubelet_that_does_not_know_its_pods_yet(site: Site) -> None:
    """A restarted kubelet lists no pods for a while. The node is not empty then, since the agent's own pod runs."""
    site.kubelet.start(pod("agent", guaranteed=False))
    site.kubelet.start(pod("a", 4, gpus=1))
    agent = published(site, "--namespace", "lab", "--pod-name", "agent")
    before = site.version()
    site.kubelet.faults = Faults(empty_lists=3)
    site.kubelet.restart()
    agent.until_said("List does not include the agent's own pod lab/agent yet")
    agent.until_said("resolved: ")
    assert site.version() == before
    assert (site.available(), site.available(GPU)) == ((11, 16), (1, 2))


def test_a_kubelet_with_garbled_responses(site: Site) -> None:
    """A garbled response costs one report."""
    site.kubelet.faults = Faults(garbled_lists=2)
    site.kubelet.restart()
    agent = site.start()
    agent.until_said(AWAY)
    agent.until(lambda: site.available() == (15, 16))


def test_a_kubelet_whose_configuration_cannot_be_fetched(site: Site) -> None:
    """The agent reads the configuration file instead, and logs this once. Only a missing file is a problem."""
    own = site.kubelet.directory / "config.yaml"
    flags = "--kubelet-config", "", "--node-ip", "127.0.0.1", "--interval", "100ms"
    blind = published(site, *flags)
    blind.until_said("the kubelet's policies are unknown")
    assert blind.end() == 0
    own.write_text(site.config.read_text())
    agent = published(site, *flags)
    agent.until(lambda: agent.metric('zonewise_wakeups_total{reason="timer"}') >= 3)
    assert len(messages(agent, f"the kubelet's configuration is read from {own}: ")) == 1
    assert agent.metric('zonewise_problems{source="report"}') == 0
    assert agent.end() == 0


def test_a_stop_while_the_kubelet_is_away() -> None:
    with new_site(kubelet=False) as site:
        agent = site.start()
        agent.until_said(AWAY)
        assert agent.end() == 0


# --- the API server


def test_an_api_server_that_restarts(site: Site) -> None:
    """A server that returns with an older state gets the newest report, and whatever else it lacks."""
    with reserved_port() as port:
        site.close_server()
        site.open_server(port)
        agent = published(site)
        site.close_server()
        site.kubelet.start(pod("a", 4))
        agent.until_said("cannot publish the nrt")
        site.kubelet.start(pod("b", 2))
        site.open_server(port)
        agent.until(lambda: site.available() == (9, 16))
        agent.until(lambda: agent.metric('zonewise_publish_errors_total{object="nrt",reason="TransportError"}') >= 1)


def test_connections_that_break(site: Site) -> None:
    """The agent publishes the next change on a new connection."""
    agent = published(site)
    site.break_connections()
    site.kubelet.start(pod("a", 4))
    agent.until(lambda: site.available() == (11, 16))


def test_an_object_that_another_client_removes(site: Site) -> None:
    """The agent creates the object again with the next change."""
    agent = published(site)
    site.remove_topology()
    site.kubelet.start(pod("a", 4))
    agent.until(lambda: site.available() == (11, 16))


def test_a_stop_while_the_api_server_is_away(site: Site) -> None:
    agent = published(site)
    site.close_server()
    site.kubelet.start(pod("a", 4))
    agent.until_said("cannot publish the nrt")
    assert agent.end() == 0
    site.open_server()


@contextlib.contextmanager
def silent_server() -> Generator[str]:
    """Accept every connection and send nothing, as a server behind a broken network does; yield the URL."""
    taken: list[socket.socket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def take() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        thread = threading.Thread(target=take)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
    for connection in taken:
        connection.close()


def test_a_stop_while_the_api_server_does_not_respond(site: Site) -> None:
    """Pending requests delay neither the scan of the node nor the stop."""
    with silent_server() as url:
        agent = site.start("--api-server", url)
        agent.until(lambda: agent.metric("zonewise_kubelet_ready") == 1)
        site.kubelet.start(pod("a", 4))
        agent.until(lambda: agent.metric('zonewise_zone_available{resource="cpu",zone="0"}') == 11)
        assert agent.end() == 0


def test_one_shot_without_success() -> None:
    """The status is 1, and the log states the problem; the test shortens the timeout."""
    with new_site(kubelet=False) as site:
        agent = site.start("--oneshot", program="import zonewise.daemon.main as m; m.ONESHOT_TIMEOUT = 0.5")
        assert agent.ended() == 1
        *_, problem, summary = agent.records()
        assert problem["message"].startswith(AWAY)
        assert summary["message"] == "not everything could be read and published within 0.5 s"


def test_one_shot_that_is_interrupted() -> None:
    """Ctrl-C stops the agent at once, without a traceback."""
    with new_site(kubelet=False) as site:
        agent = site.start("--oneshot")
        agent.until_said(AWAY)
        assert agent.interrupt() == 130
        assert "Traceback" not in agent.said
