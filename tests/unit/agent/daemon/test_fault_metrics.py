"""Faults as metrics: no samples if health checks are off, zeros without faults, and one sample per fault."""

from __future__ import annotations

from support.health_stories import FIRST, Story, xid
from zonewise.daemon.fault_metrics import FaultMetrics
from zonewise.daemon.status import Snapshot


def samples(snapshot: Snapshot) -> dict[tuple[str, ...], float]:
    families = FaultMetrics(lambda: snapshot).collect()
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def test_samples_of_disabled_checks_and_of_healthy_and_faulty_nodes() -> None:
    assert samples(Snapshot("n")) == {}
    none = {("zonewise_hardware_faults", severity): 0.0 for severity in ("note", "degraded", "failed")}
    assert samples(Snapshot("n", faults=())) == none
    story = Story()
    story.observe(events=xid(79, story.now + 1))
    faulty = samples(Snapshot("n", faults=story.state.active, fault_counts={("gpu x", "xid-79", "hardware"): 2}))
    assert faulty == {
        **none,
        ("zonewise_hardware_faults", "failed"): 1.0,
        ("zonewise_hardware_fault", "gpu", FIRST, "xid-79", "hardware", "failed"): 1.0,
        ("zonewise_hardware_fault_events_total", "gpu x", "xid-79", "hardware"): 2.0,
    }
