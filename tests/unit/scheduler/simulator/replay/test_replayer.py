"""Replays of recordings: the same entries give the same plans, and any change of a plan is detected."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.node_changes import node_change, report_change
from support.queue_objects import planner_objects
from support.recordings import HEADER, START, STEPS, RecordedQueue, Step, recorded
from zonewise_common.kube.resources import JOB_SETS, JOBS
from zonewise_scheduler.backfill.recording.planner_feed import PlannerFeed
from zonewise_scheduler.controller.planning.recorder import Recorder
from zonewise_scheduler.controller.workloads.workload_names import workload_name
from zonewise_scheduler.quota.topology.types import HOSTNAME
from zonewise_scheduler.simulator.replay.recording_reader import DamagedRecordingError
from zonewise_scheduler.simulator.replay.replayer import Replayer, SeveralWorkloadsError
from zonewise_scheduler.tas.cluster_nodes import ClusterNodes

Json = dict[str, Any]

STORY: list[Step] = [("submit", 5), ("submit", 5), ("wait", 0), ("complete", 0), ("wait", 0)]


@given(STEPS, STEPS)
def test_each_pass_of_the_live_queue_is_replayed_with_the_same_plan(steps: list[Step], later: list[Step]) -> None:
    queue = RecordedQueue()
    queue.play(steps)
    queue.restart()
    queue.play(later)
    replayer = Replayer()
    passes = list(replayer.replay(queue.lines()))
    assert len(passes) == sum(b'{"plan"' in line for line in queue.lines())
    assert all(replayed.agrees for replayed in passes)
    assert not replayer.failed


@given(st.data())
def test_a_changed_plan_disagrees(data: st.DataObject) -> None:
    lines = recorded(STORY)
    plans = [i for i, line in enumerate(lines) if json.loads(line).get("plan", {}).get("admitted")]
    i = data.draw(st.sampled_from(plans))
    document = json.loads(lines[i])
    document["plan"]["admitted"] = []
    changed = [*lines[:i], json.dumps(document).encode() + b"\n", *lines[i + 1 :]]
    disagreeing = [replayed for replayed in Replayer().replay(changed) if not replayed.agrees]
    assert [replayed.line for replayed in disagreeing] == [i]
    assert disagreeing[0].recorded == document["plan"]


def test_a_pass_in_which_the_controller_was_killed_has_no_plan_and_the_next_agree() -> None:
    lines = recorded(STORY)
    last = max(i for i, line in enumerate(lines) if line.startswith(b'{"plan"'))
    passes = list(Replayer().replay([*lines[:last], *lines[last + 1 :]]))
    assert [replayed.recorded is None for replayed in passes] == [False] * (len(passes) - 1) + [True]


def test_an_entry_that_the_planner_rejects_affects_no_other() -> None:
    lines = recorded(STORY)
    broken = b'{"entry":"submit","workload":{"metadata":{"name":"x"},"spec":{"podSets":[{"count":-1}]}}}\n'
    replayer = Replayer()
    assert all(replayed.agrees for replayed in replayer.replay([*lines[:-2], broken, *lines[-2:]]))
    assert [failed.line for failed in replayer.failed] == [len(lines) - 1]
    assert "count" in replayer.failed[0].message


def test_recorded_nodes_give_the_same_decisions() -> None:
    """There is a single host of 16 CPUs; without nodes both workloads would start."""
    flavor = {"nodeLabels": {"fast": "yes"}, "topologyName": "t"}
    objects = planner_objects({"cpu": 1000}, flavor, levels=(HOSTNAME,))
    header = HEADER._replace(nodes=True)
    file = io.BytesIO()
    record = Recorder(file, header.document()).record
    feed = PlannerFeed(header.backfill_policy, header.quota_settings, ClusterNodes(), record=record)
    feed.configure(objects, {"ns": {}})
    feed.change_nodes([node_change("n"), report_change("n", 0)])
    for name in "ab":
        container = {"name": "c", "resources": {"requests": {"cpu": "9"}}}
        pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [container]}}}
        metadata = {"namespace": "ns", "name": name, "uid": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        feed.submit({"metadata": metadata, "spec": {"queueName": "l", "podSets": [pod_set]}})
    assert [workload.key for workload in feed.run_pass(START).admitted] == ["ns/a"]
    lines = file.getvalue().splitlines(keepends=True)
    assert [replayed.agrees for replayed in Replayer().replay(lines)] == [True]
    without = json.dumps(HEADER.document()).encode() + b"\n"
    assert [replayed.agrees for replayed in Replayer().replay([without, *lines[1:]])] == [False]


def test_an_entry_that_no_controller_wrote_ends_the_replay_with_its_line() -> None:
    lines = recorded([])
    header = json.dumps(json.loads(lines[0]) | {"nodes": True}).encode() + b"\n"
    damaged = [header, *lines[1:], b'{"entry":"nodes","changes":[3]}\n']
    with pytest.raises(DamagedRecordingError, match=f"line {len(lines) + 1}: nodes: "):
        list(Replayer().replay(damaged))


def test_a_workload_is_explained_at_a_given_time() -> None:
    lines = recorded(STORY)
    waiting = "needs 6 CPUs of flavor f; ClusterQueue q has 2 of its 8 left"
    reason = Replayer().explain(lines, "ns/j1", START + 65)
    assert reason.startswith(waiting)
    assert Replayer().explain(lines, "ns/j1", START + 125).startswith("runs; ClusterQueue q admitted it 5 s before")
    assert Replayer().explain(lines, "ns/j1").startswith("runs; ClusterQueue q admitted it")
    [key] = {
        f"ns/{entry['workload']['metadata']['name']}"
        for entry in map(json.loads, lines)
        if entry.get("entry") == "submit" and entry["workload"]["metadata"]["name"].startswith("job-j1-")
    }
    assert Replayer().explain(lines, key, START + 65) == reason


def with_workloads(*names: str) -> list[bytes]:
    """Return a recording in which Workloads of these names are submitted."""
    lines = recorded([("submit", 5)])
    [entry] = [json.loads(line) for line in lines if line.startswith(b'{"entry":"submit"')]
    for name in names:
        metadata = entry["workload"]["metadata"] | {"name": name, "uid": name}
        changed = entry | {"workload": entry["workload"] | {"metadata": metadata}}
        lines.append(json.dumps(changed).encode() + b"\n")
    return lines


def test_a_workload_is_explained_at_a_time_after_a_restart() -> None:
    queue = RecordedQueue()
    queue.play([("submit", 5), ("submit", 5), ("wait", 0)])
    queue.restart()
    queue.play([("complete", 0), ("wait", 0)])
    lines = queue.lines()
    assert Replayer().explain(lines, "ns/j1", START + 65).startswith("needs 6 CPUs")
    assert Replayer().explain(lines, "ns/j1", START + 95).startswith("needs 6 CPUs")
    assert Replayer().explain(lines, "ns/j1", START + 1000).startswith("runs; ClusterQueue q admitted it")
    with pytest.raises(KeyError):
        Replayer().explain(lines, "ns/j0", START + 1000)


@pytest.mark.parametrize("length", [53, 54, 63])
def test_a_job_with_a_long_name_is_explained(length: int) -> None:
    name = ("nightly-regression-" * 4)[:length]
    assert Replayer().explain(with_workloads(workload_name(JOBS, name, "u")), f"ns/{name}")


def test_a_job_with_a_long_name_is_explained_through_a_workload_of_kueue() -> None:
    """Kueue does not truncate the name to the length of a label."""
    name = "nightly-regression-" * 3 + "test"
    assert Replayer().explain(with_workloads(f"job-{name}-0a1b2"), f"ns/{name}")


def test_workloads_of_jobs_with_the_same_name_are_listed() -> None:
    lines = with_workloads(workload_name(JOBS, "train", "u"), workload_name(JOB_SETS, "train", "v"))
    with pytest.raises(SeveralWorkloadsError, match=r"use one of ns/job-train-\w{5}, ns/jobset-train-\w{5}$"):
        Replayer().explain(lines, "ns/train")


@pytest.mark.parametrize(("key", "at"), [("ns/j1", START + 5), ("ns/j0", START + 500), ("ns/other", START + 65)])
def test_a_workload_that_is_not_queued_at_a_time_is_an_error(key: str, at: float) -> None:
    with pytest.raises(KeyError):
        Replayer().explain(recorded(STORY), key, at)
