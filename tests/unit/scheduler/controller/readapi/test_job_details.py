"""The history and the placement of a job."""

from __future__ import annotations

from zonewise_scheduler.controller.readapi.job_details import ended_json, job_json, placement_json
from zonewise_scheduler.controller.status.job_events import JobEvent
from zonewise_scheduler.controller.status.reporter import RecentEvent
from zonewise_scheduler.quota.api.workload_types import Admission, PodSetAdmission, Workload
from zonewise_scheduler.quota.topology.types import TopologyAssignment, TopologyDomainAssignment

WORKLOAD = {
    "metadata": {
        "name": "w",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "ownerReferences": [{"kind": "Job", "name": "j", "controller": True}],
    },
    "status": {
        "conditions": [
            {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "done",
             "lastTransitionTime": "2026-01-01T00:00:09Z"},
            {"type": "QuotaReserved", "status": "False", "reason": "Pending",
             "lastTransitionTime": "2026-01-01T00:00:05Z"},
            {"type": "Odd", "status": "True", "lastTransitionTime": "yesterday"},
        ]
    },
}  # fmt: skip


def test_conditions_and_events_are_in_chronological_order() -> None:
    at = 1_767_225_607.0  # 2026-01-01T00:00:07Z
    events = [
        RecentEvent(at, "Job", "ns", "j", JobEvent("Preempted", "by another", True)),
        RecentEvent(at, "Job", "ns", "other", JobEvent("Admitted", "")),
        RecentEvent(at, "Job", "elsewhere", "j", JobEvent("Admitted", "")),
    ]
    body = job_json("ns", WORKLOAD, events)
    assert body["job"] == {"kind": "Job", "name": "j", "user": None}
    assert [(entry["at"][-3:], entry["reason"], entry["warning"]) for entry in body["history"]] == [
        ("00Z", "Created", False), ("05Z", "QuotaReserved=False", False), ("07Z", "Preempted", True),
        ("09Z", "Finished", False),
    ]  # fmt: skip
    assert body["history"][-1]["message"] == "Succeeded: done"


def test_the_state_of_an_ended_workload_is_finished() -> None:
    assert ended_json("ns", "w", WORKLOAD)["state"] == "Finished"
    assert ended_json("ns", "w", {"metadata": {}})["state"] == "Unknown"


def test_a_placement_has_its_domains() -> None:
    domains = (TopologyDomainAssignment(("r1", "n1"), 2), TopologyDomainAssignment(("r1", "n2"), 1))
    pod_set = PodSetAdmission("main", {"cpu": "f"}, {"cpu": 3000}, 3, TopologyAssignment(("rack", "host"), domains))
    placed = Workload("ns", "w", (), admission=Admission("q", (pod_set,)))
    (entry,) = placement_json(placed)
    assert (entry["levels"], entry["domainCount"]) == (["rack", "host"], 2)
    assert entry["domains"][0] == {"values": ["r1", "n1"], "pods": 2}
    assert placement_json(Workload("ns", "w", ())) == []
