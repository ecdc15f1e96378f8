"""Our account of each zone equals the files of a recorded kubelet; other tests run a real one if available."""

from __future__ import annotations

import pytest

from support.e2e.published import compare
from support.e2e.recording import SCENES, recorded_machine, recorded_report, recorded_truth, recording, recordings
from zonewise.usage.node_usage import node_usage
from zonewise.usage.types import Usage


def test_every_scene_is_recorded() -> None:
    """No recording is missing, and each belongs to an existing scene."""
    assert recordings() == sorted(scene.name for scene in SCENES)


@pytest.mark.parametrize("name", recordings())
def test_zones(name: str) -> None:
    made = recording(name)
    usage = node_usage(recorded_machine(), recorded_report(made))
    assert isinstance(usage, Usage)
    assert usage.problems == ()
    compare(usage, *recorded_truth(made))
