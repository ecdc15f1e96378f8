"""The labels and features that the loop publishes: when they are recomputed, and the effect of an exception."""

from __future__ import annotations

import pytest

from support.loops import SCAN, Loop
from zonewise.daemon.events import Reason
from zonewise.machine.model.problem import Problem
from zonewise.nfd.types import LocalFeatures, LocalLabel
from zonewise.nfd.worker_config import DEFAULT_WORKER_CONFIG, WorkerConfig
from zonewise.objects.labels import LabelConfig

START, STATE = Reason.START, Reason.STATE


def test_labels_are_recomputed_only_if_the_machine_changes() -> None:
    loop = Loop()
    loop.run_once(START)
    loop.run_once(Reason.TIMER)
    first, second = loop.sink.snapshots
    assert first.labels is second.labels
    loop.scanner.result = SCAN._replace(machine=SCAN.machine._replace(problems=(Problem("f", "odd", "nothing"),)))
    loop.run_once(Reason.TIMER)
    assert loop.sink.snapshots[-1].labels is not first.labels
    assert loop.sink.snapshots[-1].labels == first.labels


def test_no_labels_are_submitted_if_their_first_computation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Empty labels would remove the existing ones from the Node. The labels follow in the first pass that succeeds."""
    loop = Loop()
    with monkeypatch.context() as broken:
        broken.setattr("zonewise.daemon.agent.build_labels", None)
        for reason in (START, Reason.RETRY):
            with pytest.raises(TypeError):
                loop.run_once(reason)
    assert loop.sink.snapshots == []
    loop.run_once(Reason.RETRY)
    assert loop.sink.snapshots[-1].labels


@pytest.mark.parametrize("function", ["node_features", "build_labels", "published_features"])
def test_labels_follow_a_change_after_a_defect(monkeypatch: pytest.MonkeyPatch, function: str) -> None:
    """The next scan computes the labels of the changed machine and feature files."""
    loop = Loop()
    loop.run_once(START)
    before = loop.sink.snapshots[-1]
    loop.local_features = LocalFeatures({"rack": "r7"}, {"rack": LocalLabel("r7", "/f:1")})
    loop.scanner.result = SCAN._replace(machine=SCAN.machine._replace(nics=()))
    with monkeypatch.context() as broken:
        broken.setattr(f"zonewise.daemon.agent.{function}", None)
        with pytest.raises(TypeError):
            loop.run_once(Reason.TIMER)
    loop.run_once(Reason.RETRY)
    assert loop.sink.snapshots[-1] == before
    loop.run_once(Reason.TIMER)
    last = loop.sink.snapshots[-1]
    assert last.machine == loop.scanner.result.machine
    assert (last.labels or {})["feature.node.kubernetes.io/rack"] == "r7"
    assert last.features.attributes["local.feature"] == {"rack": "r7"}


def test_labels_follow_a_changed_machine_after_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    """No feature file needs to have changed."""
    loop = Loop()
    loop.run_once(START)
    before = loop.sink.snapshots[-1].labels
    loop.scanner.result = SCAN._replace(machine=SCAN.machine._replace(zones=SCAN.machine.zones[:1]))
    with monkeypatch.context() as broken:
        broken.setattr("zonewise.daemon.agent.build_labels", None)
        with pytest.raises(TypeError):
            loop.run_once(Reason.TIMER)
    loop.run_once(Reason.TIMER)
    assert loop.sink.snapshots[-1].labels not in (None, before)


def test_a_feature_file_that_changes_is_published() -> None:
    """It is published at its event, but not at events unrelated to files; its problems are part of the snapshot."""
    loop = Loop()
    loop.run_once(START)
    loop.local_features = LocalFeatures({"rack": "r7"}, {"rack": LocalLabel("r7", "/f:1")}, ("/f:2: is not UTF-8",))
    loop.run_once(STATE)
    assert "local.feature" not in loop.sink.snapshots[-1].features.attributes
    loop.run_once(Reason.FEATURES)
    last = loop.sink.snapshots[-1]
    assert last.features.attributes["local.feature"] == {"rack": "r7"}
    assert (last.labels or {})["feature.node.kubernetes.io/rack"] == "r7"
    assert "/f:2: is not UTF-8" in last.problems
    loop.local_features = LocalFeatures()
    loop.run_once(Reason.TIMER)
    assert loop.sink.snapshots[-1] == loop.sink.snapshots[0]


def test_a_changed_configuration_counts() -> None:
    """It applies at its event, and its problems remain until it is repaired."""
    loop = Loop()
    loop.run_once(START)
    loop.label_config = LabelConfig(None, problems=("/c: is no YAML; GFD's labels are left out",))
    loop.run_once(STATE)
    assert loop.sink.snapshots[-1].problems == ()
    loop.run_once(Reason.FEATURES)
    assert loop.sink.snapshots[-1].problems == ("/c: is no YAML; GFD's labels are left out",)
    loop.label_config = LabelConfig()
    loop.run_once(Reason.TIMER)
    assert loop.sink.snapshots[-1] == loop.sink.snapshots[0]


@pytest.mark.parametrize("worker", [None, DEFAULT_WORKER_CONFIG._replace(no_publish=True)])
def test_no_labels_are_published(worker: WorkerConfig | None) -> None:
    """The worker's configuration disables or does not determine labels; existing labels are not changed."""
    loop = Loop()
    loop.label_config = LabelConfig(worker=worker)
    loop.run_once(START)
    assert loop.sink.snapshots[-1].labels is None
    loop.label_config = LabelConfig()
    loop.run_once(Reason.FEATURES)
    assert loop.sink.snapshots[-1].labels


def test_features_that_are_not_published_still_have_labels() -> None:
    """As in NFD, all features contribute to labels."""
    loop = Loop()
    loop.run_once(START)
    plain = loop.sink.snapshots[-1]
    loop.label_config = LabelConfig(worker=DEFAULT_WORKER_CONFIG._replace(no_publish_features=("memory.*",)))
    loop.run_once(Reason.FEATURES)
    last = loop.sink.snapshots[-1]
    assert "memory.numa" in plain.features.attributes
    assert "memory.numa" not in last.features.attributes
    assert last.labels == plain.labels
