"""Tables of built-in kinds, as kubectl prints them."""

from __future__ import annotations

from typing import Any

import pytest

from zonewise_sandbox.apiserver.http.printers import PRINTERS, age, duration
from zonewise_sandbox.apiserver.schemas.crds import json_path_value

NOW = 1_795_348_800.0
"""2026-11-22T12:00:00Z."""
HOUR_AGO = "2026-11-22T11:00:00Z"


def cells(group: str, plural: str, obj: dict[str, Any]) -> dict[str, Any]:
    printer = PRINTERS[group, plural]
    return dict(zip((name for name, _ in printer.columns), printer.cells(obj, NOW), strict=True))


def pod(phase: str, *, spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"creationTimestamp": HOUR_AGO},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], **(spec or {})},
        "status": {"phase": phase, **status},
    }


@pytest.mark.parametrize(
    ("obj", "status"),
    [
        (pod("Pending"), "Pending"),
        (pod("Pending", spec={"schedulingGates": [{"name": "x"}]}), "SchedulingGated"),
        (pod("Failed", reason="TopologyAffinityError"), "TopologyAffinityError"),
        (pod("Succeeded", containerStatuses=[{"state": {"terminated": {"reason": "Completed"}}}]), "Completed"),
        (pod("Running") | {"metadata": {"deletionTimestamp": HOUR_AGO}}, "Terminating"),
    ],
)
def test_the_status_of_a_pod(obj: dict[str, Any], status: str) -> None:
    assert cells("", "pods", obj)["Status"] == status


def test_a_pod() -> None:
    running = pod("Running", spec={"nodeName": "n"}, containerStatuses=[{"ready": True, "restartCount": 2}, {}])
    shown = cells("", "pods", running)
    assert (shown["Ready"], shown["Restarts"], shown["Age"], shown["Node"]) == ("1/2", "2", "60m", "n")


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "status"),
    [
        ([], False, "Unknown"),
        ([{"type": "Ready", "status": "True"}], False, "Ready"),
        ([{"type": "Ready", "status": "False"}], True, "NotReady,SchedulingDisabled"),
    ],
)
def test_a_node(conditions: list[Any], unschedulable: bool, status: str) -> None:
    node = {"metadata": {"labels": {"node-role.kubernetes.io/login": ""}}, "spec": {"unschedulable": unschedulable},
            "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1"}}}  # fmt: skip
    assert cells("", "nodes", node) == {"Status": status, "Roles": "login", "Age": "<unknown>", "Version": "v1"}


@pytest.mark.parametrize(
    ("spec", "status", "expected"),
    [
        ({"parallelism": 3}, {}, ("Running", "0/1 of 3", "")),
        ({"completions": 4}, {"startTime": HOUR_AGO, "succeeded": 1}, ("Running", "1/4", "60m")),
        ({"completions": 1}, {"conditions": [{"type": "Suspended", "status": "True"}]}, ("Suspended", "0/1", "")),
        (
            {"completions": 1},
            {"startTime": HOUR_AGO, "completionTime": "2026-11-22T11:00:30Z", "succeeded": 1,
             "conditions": [{"type": "Complete", "status": "True"}]},
            ("Complete", "1/1", "30s"),
        ),
    ],
)  # fmt: skip
def test_a_job(spec: dict[str, Any], status: dict[str, Any], expected: tuple[str, str, str]) -> None:
    shown = cells("batch", "jobs", {"metadata": {}, "spec": spec, "status": status})
    assert (shown["Status"], shown["Completions"], shown["Duration"]) == expected


def test_an_event() -> None:
    event = {"lastTimestamp": HOUR_AGO, "type": "Normal", "reason": "Admitted", "message": "m",
             "involvedObject": {"kind": "Job", "name": "a"}}  # fmt: skip
    assert list(cells("", "events", event).values()) == ["60m", "Normal", "Admitted", "job/a", "m"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7199, "119m"), (7200, "2h"), (172800, "2d")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_an_unknown_age() -> None:
    assert age(None, NOW) == age("", NOW) == "<unknown>"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ('.conditions[?(@.type=="Ready")].status', "True"),
        (".conditions[?(@.type=='Other')].status", None),
        (".conditions[0].type", "Ready"),
        (".name[?(@.type=='Ready')].status", None),
    ],
)
def test_paths_with_filters(path: str, value: str | None) -> None:
    assert json_path_value({"name": "a", "conditions": [{"type": "Ready", "status": "True"}]}, path) == value
