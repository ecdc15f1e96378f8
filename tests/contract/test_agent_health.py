"""`zonewise agent` judges the hardware: a line of the kernel log is a condition of the Node, over a restart too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.agents import NODE_PATH, Site, new_site
from support.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator

XID = "NVRM: Xid (PCI:0000:3b:00): 119, pid=4242, name=python, Timeout waiting for RPC from GSP0!"
METRIC = 'zonewise_hardware_fault{device="0000:3b:00.0",kind="gpu",rule="xid-119",severity="failed",verdict="driver"}'


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with new_site() as site:
        yield site


def conditions(site: Site) -> dict[str, str]:
    status = site.api.get(NODE_PATH).ok().get("status", {})
    return {one["type"]: f"{one['status']} {one['reason']}" for one in status.get("conditions", [])}


def test_a_line_of_the_kernel_log_is_a_condition_over_a_restart(site: Site) -> None:
    log, state = site.directory / "kmsg", site.directory / "health.json"
    os.mkfifo(log)
    # open for both, so that the log has a writer throughout, as the kernel's has
    kernel = os.open(log, os.O_RDWR)
    flags = ["--health-mode", "publish", "--health-kernel-log", str(log), "--health-state-file", str(state)]
    agent = site.start(*flags)
    eventually(lambda: conditions(site).get("GPUHardwareFault") == "False NoFault")
    os.write(kernel, f"4,9,1000000,-;{XID}\n".encode())
    eventually(lambda: conditions(site)["GPUHardwareFault"] == "True XID119")
    assert agent.metric(METRIC) == 1.0
    assert "verdict driver" in agent.said
    events = site.api.get("/api/v1/namespaces/default/events").ok()["items"]
    assert [event["reason"] for event in events] == ["XID119"]
    assert agent.end() == 0
    before = site.version()
    again = site.start(*flags)
    eventually(lambda: again.metric(METRIC) == 1.0)
    eventually(lambda: site.version() != before)
    assert conditions(site)["GPUHardwareFault"] == "True XID119"
    assert again.end() == 0
    os.close(kernel)
