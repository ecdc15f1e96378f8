"""The metrics of the node and of the scans come from the last snapshot; unknown facts have no samples."""

from __future__ import annotations

import pytest
from prometheus_client.exposition import generate_latest

from support.clock import Clock
from support.machines import gpu_server, small_vm
from zonewise.daemon.metrics import AgentMetrics
from zonewise.daemon.status import Snapshot, Status
from zonewise.machine.discover import Run
from zonewise.machine.model.problem import Problem
from zonewise.usage.types import Amount, Usage, ZoneUsage
from zonewise_common.k8s.cpuset import CpuSet

USAGE = Usage(
    (ZoneUsage(0, {"cpu": Amount(4, 3, 1), "memory": Amount(1 << 34, 1 << 33, 0)}, CpuSet.parse_list("1-3")),),
    {"example.com/dongle": Amount(2, 2, 1)}, {}, None, "pfp0v001", "pfp0v001",
)  # fmt: skip


class Scrape:
    """A status and its metrics."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.status = Status(self.clock)
        self.meters = AgentMetrics()
        self.meters.watch(self.status)

    def value(self, name: str, **labels: str) -> float | None:
        return self.meters.registry.get_sample_value(name, labels)

    def text(self) -> str:
        return generate_latest(self.meters.registry).decode()


@pytest.fixture
def scrape() -> Scrape:
    return Scrape()


def test_before_the_first_scan(scrape: Scrape) -> None:
    """A node without a scan has no samples, and the scrape does not fail."""
    assert "zonewise_zone_capacity{" not in scrape.text()
    assert "zonewise_build_info" in scrape.text()


def test_zones(scrape: Scrape) -> None:
    """Each resource of each zone has three amounts; the zone label is empty for amounts outside any zone."""
    scrape.status.set_snapshot(Snapshot("n1", small_vm(), usage=USAGE))
    for field, cpus, dongles in (("capacity", 4, 2), ("allocatable", 3, 2), ("available", 1, 1)):
        assert scrape.value(f"zonewise_zone_{field}", zone="0", resource="cpu") == cpus
        assert scrape.value(f"zonewise_zone_{field}", zone="", resource="example.com/dongle") == dongles
    assert scrape.value("zonewise_zone_available", zone="0", resource="memory") == 0


def test_unknown_is_not_zero(scrape: Scrape) -> None:
    """While the kubelet fails, its resources have no samples; the machine still has its samples."""
    scrape.status.set_snapshot(Snapshot("n1", small_vm(), problems=("the kubelet is away",)))
    assert scrape.value("zonewise_zone_available", zone="0", resource="cpu") is None
    assert scrape.value("zonewise_cpus", state="online") == 4
    assert scrape.value("zonewise_problems", source="report") == 1


def test_hardware(scrape: Scrape) -> None:
    """The parts are counted, and each GPU, NIC and port has a sample."""
    machine = gpu_server()
    scrape.status.set_snapshot(Snapshot("n1", machine))
    assert scrape.value("zonewise_packages") == len(machine.packages)
    assert scrape.value("zonewise_cores") == len(machine.cores)
    text = scrape.text()
    assert text.count("\nzonewise_gpu_info{") == len(machine.gpus)
    assert text.count("\nnode_infiniband_info{") == len(machine.infiniband)
    physical = [nic for nic in machine.nics if nic.address is not None and nic.physical_function is None]
    assert text.count("\nzonewise_nic_info{") == len(physical)
    port = machine.infiniband[0].ports[0]
    rate = scrape.value("node_infiniband_rate_bytes_per_second", device=machine.infiniband[0].name, port="1")
    assert port.rate_gbps is not None
    assert rate == port.rate_gbps * 1e9 / 8


def test_collectors(scrape: Scrape) -> None:
    """Each collector has its duration and whether it failed; a collector without data has not failed."""
    runs = (Run("cpus", 0.25, "collected"), Run("gpus", 0.5, "failed", "KeyError"), Run("dax", 0.0, "no data"))
    machine = small_vm()._replace(problems=(Problem("f", "odd", "nothing"),) * 3)
    scrape.status.set_snapshot(Snapshot("n1", machine, runs))
    assert scrape.value("zonewise_collector_duration_seconds", collector="gpus") == 0.5
    success = [scrape.value("zonewise_collector_success", collector=run.collector) for run in runs]
    assert success == [1, 0, 1]
    assert scrape.value("zonewise_problems", source="machine") == 3


def test_the_age_of_published_objects(scrape: Scrape) -> None:
    """The age is absent until something has been published."""
    scrape.status.expect(["nrt"])
    assert scrape.value("zonewise_published_age_seconds") is None
    scrape.status.published("nrt")
    scrape.clock.advance(30)
    assert scrape.value("zonewise_published_age_seconds") == 30


AGE = "zonewise_watch_age_seconds"


def test_a_closed_watch_has_no_age(scrape: Scrape) -> None:
    """Its age would grow without end and raise an alert."""
    for resource in ("a", "b"):
        scrape.meters.watch_age(resource, lambda: 1.0)
    scrape.meters.remove_watch_age("a")
    assert [scrape.value(AGE, resource=resource) for resource in ("a", "b")] == [None, 1.0]


def test_disabled_rules_have_no_counts(scrape: Scrape) -> None:
    scrape.meters.rules.labels("failed").set(1)
    scrape.meters.rule_rejections.set(2)
    scrape.meters.clear_rules()
    assert scrape.value("zonewise_rules", state="failed") is None
    assert scrape.value("zonewise_rule_outputs_rejected") == 0
