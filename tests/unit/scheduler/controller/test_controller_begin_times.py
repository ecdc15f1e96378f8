"""Jobs with a begin time in the live queue, and reservations in advance."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from support.controller_stories import QUEUE, ControllerStory
from support.model_cluster import ModelCluster

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import ObjectKey

Json = dict[str, Any]
BEGIN = "zonewise.dev/begin"
ADVANCE = "zonewise.dev/advance-reservations"


def begin(story: ControllerStory, seconds: float) -> Json:
    """Return a patch with a begin time some seconds from now."""
    time = datetime.fromtimestamp(story.now + seconds, UTC).isoformat()
    return {"metadata": {"annotations": {BEGIN: time}}}


def is_started(story: ControllerStory, job: ObjectKey) -> bool:
    return not story.cluster.get(job)["spec"]["suspend"]


def test_a_job_starts_at_its_begin_time_and_holds_no_quota_before() -> None:
    """An earlier begin time of a waiting job counts at once."""
    story = ControllerStory(ModelCluster())
    later, other = story.cluster.submit("later", 8), story.cluster.submit("other", 8, at=1)
    story.cluster.change(later, begin(story, 5000))
    story.settle()
    assert (is_started(story, later), is_started(story, other)) == (False, True)
    story.cluster.complete(other)
    story.settle()
    assert not is_started(story, later)
    story.cluster.change(later, begin(story, 100))
    begins = story.now + 100
    story.settle_until(lambda: is_started(story, later))
    assert begins <= story.now < begins + 20


def test_a_queue_with_advance_reservations_holds_the_time_for_the_job() -> None:
    """A job without a walltime does not start, although it fits now: it may still run at that time."""
    story = ControllerStory(ModelCluster())
    story.cluster.change(QUEUE, {"metadata": {"annotations": {ADVANCE: "true"}}})
    maintenance = story.cluster.submit("maintenance", 8)
    story.cluster.change(maintenance, begin(story, 1000))
    story.settle()
    long, short = story.cluster.submit("long", 4, at=1), story.cluster.submit("short", 4, at=2)
    story.cluster.change(short, {"metadata": {"annotations": {"zonewise.dev/max-run-seconds": "900"}}})
    story.settle()
    assert (is_started(story, long), is_started(story, short)) == (False, True)
    story.cluster.complete(short)
    story.settle_until(lambda: is_started(story, maintenance))
    assert not is_started(story, long)


def test_an_invalid_begin_time_holds_the_job_and_names_the_field() -> None:
    """The webhook rejects it; without the webhook, the job must not start at once."""
    story = ControllerStory(ModelCluster())
    job = story.cluster.submit("job", 1)
    story.cluster.change(job, {"metadata": {"annotations": {BEGIN: "tomorrow"}}})
    story.settle()
    assert story.cluster.get(job)["spec"]["suspend"]
