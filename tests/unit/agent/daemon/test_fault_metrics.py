"""Faults as metrics: nothing where health is off, zeros where nothing is wrong, one sample for each fault."""

from __future__ import annotations

from support.health_stories import FIRST, Story, xid
from zonewise.daemon.fault_metrics import FaultMetrics
from zonewise.daemon.status import Snapshot


def samples(snapshot: Snapshot) -> dict[tuple[str, ...], float]:
    families = FaultMetrics(lambda: snapshot).collect()
    return {(one.name, *one.labels.values()): one.value for family in families for one in family.samples}


def test_off_and_healthy_and_faulty() -> None:
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
