"""Random histories of a job's pods, with late observations and lost responses: no domain ever gets too many pods."""

from __future__ import annotations

import copy
from collections import Counter
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
from hypothesis import given

from support.held_pods import INDEX, assigned_workload, held_pod, managed, patched
from zonewise_scheduler.controller.pods.managed_pods import ManagedPods
from zonewise_scheduler.controller.pods.node_pin import pinned_node
from zonewise_scheduler.controller.pods.ungate import UngateContext, find_ungatings, ungate_write
from zonewise_scheduler.quota.topology.types import HOSTNAME

if TYPE_CHECKING:
    from zonewise_scheduler.controller.types import Write

Json = dict[str, Any]


class World:
    """A job's controller, an API server, and the controller of the queue, which observes the pods later."""

    def __init__(self, domains: dict[str, int], *, level: str, indexed: bool, whole_gangs: bool) -> None:
        self.domains = domains
        self.level = level
        self.indexed = indexed
        self.count = sum(domains.values())
        self.workload = assigned_workload(domains, level=level, indexed=indexed)
        self.context = UngateContext({name: f"node-{name}" for name in domains}, whole_gangs=whole_gangs)
        self.pods: dict[str, Json] = {}
        """The pods in the API server, by UID."""
        self.events: list[tuple[str, Json | None]] = []
        self.view = ManagedPods()
        self.writes: list[Write] = []
        self.serial = 0

    # --- the job's controller and the kubelets

    def create(self) -> None:
        live = [pod for pod in self.pods.values() if pod["status"]["phase"] in {"Pending", "Running"}]
        needed = [pod for pod in live if "deletionTimestamp" not in pod["metadata"]]
        if len(needed) >= self.count:
            return
        taken = {pod["metadata"]["labels"].get(INDEX) for pod in needed}
        index = next(index for index in range(self.count + 1) if str(index) not in taken)
        self.serial += 1
        self.put(held_pod(f"p{self.serial}", index=index if self.indexed else None))

    def end(self, choice: int, *, at_once: bool) -> None:
        """Delete a pod: a held one at once, any other after it has terminated."""
        if not self.pods:
            return
        uid = list(self.pods)[choice % len(self.pods)]
        pod = copy.deepcopy(self.pods[uid])
        if pod["spec"].get("schedulingGates") or at_once:
            del self.pods[uid]
            self.events.append((uid, None))
        else:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.put(pod)

    def fail(self, choice: int) -> None:
        started = [uid for uid, pod in self.pods.items() if not pod["spec"].get("schedulingGates")]
        if started:
            pod = copy.deepcopy(self.pods[started[choice % len(started)]])
            pod["status"]["phase"] = "Failed"
            self.put(pod)

    def put(self, pod: Json) -> None:
        self.pods[pod["metadata"]["uid"]] = pod
        self.events.append((pod["metadata"]["uid"], pod))

    # --- the controller of the queue

    def observe(self) -> None:
        if self.events:
            uid, pod = self.events.pop(0)
            if pod is None:
                self.view.remove(uid)
            else:
                self.view.observe(managed(pod))

    def decide(self) -> None:
        on_their_way = {write.uid for write in self.writes}
        for ungating in find_ungatings(self.workload, self.view.of_workload("ns/w"), self.context):
            assert ungating.pod.uid not in on_their_way, "no pod is ungated twice"
            self.view.assume(ungating)
            self.writes.append(ungate_write(ungating))

    def write(self, choice: int, *, response_is_lost: bool) -> None:
        """Apply a patch in the API server; a patch without a response is repeated."""
        if not self.writes:
            return
        write = self.writes[choice % len(self.writes)]
        pod = self.pods.get(write.uid)
        if pod is not None:
            after = patched(pod, write)
            if after != pod:
                self.put(after)
        if not response_is_lost:
            self.writes.remove(write)
            if pod is None:
                self.view.forget(write.uid)

    def act(self, name: str, choice: int) -> None:
        """Make one event happen: some pods are created or observed, or one of them changes."""
        if name in {"end", "gone"}:
            self.end(choice, at_once=name == "gone")
        elif name == "fail":
            self.fail(choice)
        elif name == "decide":
            self.decide()
        elif name in {"write", "lose"}:
            self.write(choice, response_is_lost=name == "lose")
        else:
            for _ in range(choice + 1):
                self.create() if name == "create" else self.observe()

    # --- invariants

    def pinned(self) -> Counter[str]:
        """Return the active pods of each domain."""
        active = [
            managed(pod)
            for pod in self.pods.values()
            if not pod["spec"].get("schedulingGates") and pod["status"]["phase"] != "Failed"
        ]
        if self.level == HOSTNAME:
            return Counter(pinned_node(pod).removeprefix("node-") for pod in active)
        return Counter(pod.node_selector[self.level] for pod in active)

    def check(self) -> None:
        for domain, pods in self.pinned().items():
            assert pods <= self.domains[domain], self.pods

    def settle(self) -> None:
        """Run without failures until everything is observed."""
        for uid in [uid for uid, pod in self.pods.items() if "deletionTimestamp" in pod["metadata"]]:
            del self.pods[uid]
            self.events.append((uid, None))
        for _ in range(self.count):
            self.create()
        self.decide()
        while self.writes or self.events:
            self.write(0, response_is_lost=False)
            self.observe()
            self.check()
            if not self.writes and not self.events:
                self.decide()


ACTIONS = st.tuples(
    st.sampled_from(["create", "end", "gone", "fail", "observe", "decide", "write", "lose"]),
    st.integers(0, 7),
)


@given(
    domains=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    level=st.sampled_from([HOSTNAME, "rack"]),
    indexed=st.booleans(),
    whole_gangs=st.booleans(),
    actions=st.lists(ACTIONS, min_size=10, max_size=50),
)
def test_no_domain_ever_has_more_active_pods_than_assigned_and_all_pods_run_in_the_end(
    domains: list[int], level: str, actions: list[tuple[str, int]], *, indexed: bool, whole_gangs: bool
) -> None:
    assigned = {f"d{index}": count for index, count in enumerate(domains)}
    world = World(assigned, level=level, indexed=indexed, whole_gangs=whole_gangs)
    for name, choice in actions:
        world.act(name, choice)
        world.check()
    world.settle()
    assert world.pinned() == Counter(assigned)
