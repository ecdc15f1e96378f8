"""`zonewise agent` repairs its NodeResourceTopology, whatever other clients do to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from support.agents import CRD, TOPOLOGY, AgentProcess, Site, new_site

if TYPE_CHECKING:
    from collections.abc import Iterator

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD_PATH = f"{CRDS}/noderesourcetopologies.topology.node.k8s.io"
FREE = (15, 16)
WATCH_AGE = 'zonewise_watch_age_seconds{resource="noderesourcetopologies"}'


@pytest.fixture
def site() -> Iterator[Site]:
    with new_site() as made:
        yield made


def watching(site: Site) -> AgentProcess:
    """Start an agent, and wait until it watches its object."""
    agent = site.start()
    agent.until(lambda: WATCH_AGE in agent.page("/metrics")[1])
    return agent


def repairs(agent: AgentProcess, cause: str) -> float:
    return agent.metric(f'zonewise_publish_repairs_total{{cause="{cause}",object="nrt"}}')


def test_an_edited_report_is_repaired(site: Site) -> None:
    """The agent repairs it long before the next scan, and leaves labels of other clients unchanged."""
    agent = watching(site)
    site.api.patch(TOPOLOGY, {"zones": [], "metadata": {"labels": {"team": "x"}}}).ok()
    agent.until(lambda: site.available() == FREE)
    agent.until(lambda: repairs(agent, "edited") == 1)
    topology = site.topology()
    assert topology is not None
    assert topology["metadata"]["labels"] == {"team": "x"}


def test_a_deleted_report_is_created_again(site: Site) -> None:
    agent = watching(site)
    site.remove_topology()
    agent.until(lambda: site.available() == FREE)
    agent.until(lambda: repairs(agent, "deleted") == 1)


def test_a_kind_that_is_removed_and_restored(site: Site) -> None:
    """The report and its watch return soon after the kind."""
    agent = watching(site)
    site.api.delete(CRD_PATH).ok()
    agent.until(lambda: agent.metric('zonewise_publish_errors_total{object="nrt",reason="NotFound"}') > 0)
    site.api.post(CRDS, yaml.safe_load(CRD.read_text())).ok()
    agent.until(lambda: site.available() == FREE)
    agent.until(lambda: repairs(agent, "deleted") == 1)


def test_a_watch_that_breaks(site: Site) -> None:
    """After reconnecting, the agent finds edits that were made meanwhile."""
    agent = watching(site)
    for _ in range(3):
        site.break_connections()
        site.api.patch(TOPOLOGY, {"zones": []}).ok()
        agent.until(lambda: site.available() == FREE)
