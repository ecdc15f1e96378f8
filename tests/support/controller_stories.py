"""Stories of the live queue on a model cluster. They kill controllers after any write and check invariants."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from support.live_queue import Killed, LiveQueue
from zonewise_common.kube.resources import CLUSTER_QUEUES
from zonewise_scheduler.controller.controller import ControllerOptions
from zonewise_scheduler.controller.types import ObjectKey, Verb
from zonewise_scheduler.controller.workloads.time_limits import ReadinessLimits
from zonewise_scheduler.controller.writing.outcome import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.model_cluster import ModelCluster
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.controller.types import Write

Json = dict[str, Any]

QUEUE = ObjectKey(CLUSTER_QUEUES, "", "q")
MAX_ROUNDS = 200
MAX_WAKES = 20
LIMITS = ReadinessLimits(timeout=300, recovery_timeout=100, max_requeues=1, backoff_base=60)
AnyStory = TypeVar("AnyStory", bound="ControllerStory")
OPTIONS = ControllerOptions(readiness=LIMITS)


class ControllerStory:
    """A model cluster, a succession of controllers, and the invariants of both."""

    def __init__(
        self,
        cluster: ModelCluster,
        kill_after: int | None = None,
        *,
        leaders: int = 1,
        before_write: Callable[[ControllerStory, Write, int], None] = lambda _story, _write, _number: None,
        skew: float = 0.0,
        options: ControllerOptions = OPTIONS,
        rejects: Resource | None = None,
    ) -> None:
        """`leaders`: the number of controllers that lead at once. `before_write` gets each write and the number of
        earlier ones.

        `kill_after`: the number of writes after which another controller replaces the first one. The new controller's
        clock is `skew` seconds ahead. `rejects`: a resource whose objects cannot be created.
        """
        self.cluster = cluster
        self.rejects = rejects
        self.now = 1_800_000_000.0
        self.rounds = 0
        self.may_exceed_quota = False
        """Whether a user has started a Job outside the queue; reset when the story has settled."""
        self._before_write = before_write
        self._skew = skew
        self._options = options
        self._left = kill_after
        self._written = 0
        self._queue = self._new_queue()
        self._others = [self._new_queue() for _ in range(leaders - 1)]

    @property
    def queue(self) -> LiveQueue:
        """The first controller."""
        return self._queue

    def settle(self) -> None:
        """Run all rounds until nothing changes any more."""
        for _ in range(MAX_ROUNDS):
            if not self.round():
                self.may_exceed_quota = False
                self.check()
                return
        raise AssertionError(f"not settled: {self._queue.purposes[-8:]}")

    def round(self) -> bool:
        """Run one round of every controller and the cluster; return whether anything has changed."""
        self.rounds += 1
        self.now += 1
        before = self.cluster.listed()
        for other in self._others:
            other.observe()
        try:
            self._queue.step()
        except Killed:
            self._written += len(self._queue.writes)
            self._left = None
            self._queue = self._new_queue(self._skew)
        for other in self._others:
            other.act()
        self.check()
        self.cluster.sync_jobs()
        self.check()
        return self.cluster.listed() != before or bool(self._queue.step())

    def settle_until(self, condition: Callable[[], bool]) -> None:
        """Settle and advance the clock to the controller's next wake time, repeatedly, until a condition holds."""
        for _ in range(MAX_WAKES):
            self.settle()
            if condition():
                return
            assert self._queue.controller.wake_at < inf, "it sleeps forever"
            self.now = max(self.now, self._queue.controller.wake_at)
        raise AssertionError(f"it does not come true: {self._queue.purposes[-8:]}")

    def check(self) -> None:
        """Check the invariants that hold after each write."""
        (group,) = self.cluster.get(QUEUE)["spec"]["resourceGroups"]
        quota = int(group["flavors"][0]["resources"][0]["nominalQuota"])
        assert self.may_exceed_quota or self.cluster.active_cpus() <= quota
        owners = [owner["uid"] for obj in self.cluster.workloads() for owner in obj["metadata"]["ownerReferences"]]
        assert len(owners) == len(set(owners))

    def total_writes(self) -> int:
        """Return the number of writes by the first controller and its replacement."""
        return self._written + len(self._queue.writes)

    def purposes(self) -> list[str]:
        """Return the purposes of the writes of the controller that is not killed, with the kinds of objects."""
        return self._queue.purposes

    def _new_queue(self, skew: float = 0.0) -> LiveQueue:
        return LiveQueue(
            self.cluster.listed,
            self._send,
            now=lambda: self.now + skew,
            writes_left=self._left,
            options=self._options,
            nodes=self.cluster.node_feed(),
        )

    def _send(self, write: Write) -> Outcome:
        self._before_write(self, write, self.total_writes())
        if write.verb is Verb.CREATE and write.key.resource == self.rejects:
            return Outcome("rejected", message="not served")
        return self.cluster.send(write)


def kills(
    play: Callable[[AnyStory], None],
    cluster: Callable[[], ModelCluster],
    story: Callable[[ModelCluster, None], AnyStory] = ControllerStory,
) -> Iterator[int]:
    """Yield each number of writes after which a story's controller can be killed."""
    whole = story(cluster(), None)
    play(whole)
    yield from range(whole.total_writes() + 1)


def annotate_first() -> Callable[[ControllerStory, Write, int], None]:
    """Return a `before_write` in which a user annotates each object before the first write of each purpose."""
    edited: set[tuple[ObjectKey, str]] = set()

    def annotate(story: ControllerStory, write: Write, _number: int) -> None:
        if (write.key, write.purpose) not in edited and write.key in story.cluster.objects:
            edited.add((write.key, write.purpose))
            story.cluster.change(write.key, {"metadata": {"annotations": {"user": write.purpose}}})

    return annotate


def owners(workload: Json) -> list[str]:
    """Return the names of an object's owners."""
    return [owner["name"] for owner in workload["metadata"]["ownerReferences"]]
