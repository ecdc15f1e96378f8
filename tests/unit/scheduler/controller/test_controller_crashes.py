"""The controller is killed after every single write of a scenario; each time a new one must complete the scenario.

A Job must never start twice for one admission, usage must never exceed the quota, and no Job or quota may be lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.controller_stories import QUEUE, ControllerStory, annotate_first, kills
from support.json_edits import without_absent_fields
from support.model_cluster import NAMESPACE, ModelCluster
from support.profiles import share
from support.queue_stories import PREEMPTING, STORIES
from zonewise_common.kube.resources import WORKLOADS
from zonewise_scheduler.controller.jobs.injected import INJECTED_ANNOTATION
from zonewise_scheduler.controller.types import ObjectKey
from zonewise_scheduler.controller.workloads.enforced_walltime import ENFORCE_ANNOTATION
from zonewise_scheduler.quota.api.declared_walltime import DEFAULT_RUN_ANNOTATION

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write


@pytest.mark.parametrize("clears_start_time", [True, False], ids=["since-1.36", "before"])
@pytest.mark.parametrize("name", STORIES)
def test_a_scenario_completes_wherever_the_controller_is_killed(name: str, clears_start_time: bool) -> None:
    """Before 1.36, a stopped Job keeps its start time; by default, a third of the writes are tried with that."""
    play, spec = STORIES[name]

    def cluster() -> ModelCluster:
        return ModelCluster(clears_start_time=clears_start_time, **spec)

    for writes in share(kills(play, cluster), 1 if clears_start_time else 3):
        play(ControllerStory(cluster(), writes))


@pytest.mark.parametrize("clears_start_time", [True, False], ids=["since-1.36", "before"])
def test_a_job_is_restored_whenever_its_workload_is_lost(clears_start_time: bool) -> None:
    """The Workload is deleted after each write of a scenario with a preemption."""

    def play(after: int) -> int:
        def lose(story: ControllerStory, _write: Write, number: int) -> None:
            if number == after:
                for obj in story.cluster.workloads():
                    story.cluster.delete(ObjectKey(WORKLOADS, NAMESPACE, obj["metadata"]["name"]))

        story = ControllerStory(ModelCluster(clears_start_time=clears_start_time, **PREEMPTING), before_write=lose)
        enforced = {ENFORCE_ANNOTATION: "true", DEFAULT_RUN_ANNOTATION: "10m"}
        story.cluster.change(QUEUE, {"metadata": {"annotations": enforced}})
        low = story.cluster.submit("low", 6, priority="low")
        template = story.cluster.get(low)["spec"]["template"]
        story.settle()
        high = story.cluster.submit("high", 6, priority="high", at=5)
        story.settle()
        assert story.cluster.get(low)["spec"]["suspend"]
        assert without_absent_fields(story.cluster.get(low)["spec"]["template"]) == without_absent_fields(template)
        assert story.cluster.get(low)["spec"].get("activeDeadlineSeconds") is None
        assert INJECTED_ANNOTATION not in story.cluster.get(low)["metadata"].get("annotations", {})
        assert not story.cluster.get(high)["spec"]["suspend"]
        return story.total_writes()

    for after in range(play(-1) + 1):
        play(after)


@pytest.mark.parametrize("name", STORIES)
def test_user_annotations_before_each_write_only_delay_a_scenario(name: str) -> None:
    play, spec = STORIES[name]
    play(ControllerStory(ModelCluster(**spec), before_write=annotate_first()))
