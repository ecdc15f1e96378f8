"""CPUs that cpu_manager_state has for inactive pods: the next admission can allocate them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given

from support.kubelet_reports import CONFIG, NodeHistory, make_allocatable, make_node, node_histories
from zonewise.kubelet.checkpoint import UNKNOWN_POD, WHOLE_POD
from zonewise.kubelet.types import ContainerResources, CpuManagerState, KubeletReport, PodResources, StateFiles
from zonewise.usage.cpu_usage import cpu_usage
from zonewise.usage.stale_cpus import stale_cpus
from zonewise_common.k8s.cpuset import EMPTY, CpuSet

if TYPE_CHECKING:
    from collections.abc import Mapping

MACHINE = make_node((0, 1))


def cpus(text: str) -> CpuSet:
    return CpuSet.parse_list(text)


def pod(name: str, **containers: str) -> PodResources:
    """Return a listed pod with the CPUs of its containers."""
    return PodResources("ns", name, tuple(ContainerResources(one, cpus(held)) for one, held in containers.items()))


def report(*pods: PodResources, **entries: Mapping[str, str]) -> KubeletReport:
    """Return a report with a file of these entries: CPUs by UID and container."""
    held = {uid: {name: cpus(text) for name, text in containers.items()} for uid, containers in entries.items()}
    shared = CpuSet(range(16)) - CpuSet.union(one for containers in held.values() for one in containers.values())
    files = StateFiles(CpuManagerState("static", shared, held))
    return KubeletReport(pods, make_allocatable(MACHINE), CONFIG, files)


def test_cpus_of_a_pod_that_has_left_list_are_free() -> None:
    """The kubelet releases them before it allocates, so the next pod can get them."""
    observed = report(pod("stays", c="1-2"), old={"c": "3-4"}, new={"c": "1-2"})
    assert stale_cpus(observed) == cpus("3-4")
    assert cpu_usage(MACHINE, observed, EMPTY).free == cpus("3-15")


def test_without_any_pod_everything_is_free() -> None:
    """All containers of each pod are included."""
    assert stale_cpus(report(old={"c": "3-4", "d": "5"}, other={"c": "1"})) == cpus("1,3-5")


def test_cpus_of_init_containers_remain_with_their_pod() -> None:
    """List omits them, but has another CPU of the same entry."""
    observed = report(pod("p", c="1-2"), u={"c": "1-2", "init": "1-7"})
    assert stale_cpus(observed) == EMPTY
    assert cpu_usage(MACHINE, observed, EMPTY).free == cpus("8-15")


def test_an_entry_of_only_init_containers_may_belong_to_a_pod_without_cpus() -> None:
    """The entry is held while, by the names of its containers, any listed pod without CPUs could own it."""
    held = {"init": "1-3"}
    assert stale_cpus(report(pod("p", c=""), u=held)) == EMPTY
    assert stale_cpus(report(pod("p", c="8"), u=held, v={"c": "8"})) == cpus("1-3")
    assert stale_cpus(report(pod("p", init=""), u=held)) == cpus("1-3")
    assert stale_cpus(report(pod("p", init=""), pod("q", c=""), u=held)) == EMPTY


def test_an_entry_of_a_pod_that_has_ended_is_stale() -> None:
    """Earlier observations of a pod decide cases that one observation cannot."""
    observed = report(pod("p", c=""), u={"init": "1-3"})
    assert stale_cpus(observed._replace(ended=frozenset({"u"}))) == cpus("1-3")


def test_a_listed_pod_has_not_ended() -> None:
    """List is newer than the earlier observation."""
    observed = report(pod("p", c="1"), u={"c": "1"})
    assert stale_cpus(observed._replace(ended=frozenset({"u"}))) == EMPTY


def test_before_the_sources_are_ready_nothing_is_stale() -> None:
    """A kubelet that has just started does not know its pods and releases nothing."""
    observed = report(u={"c": "1-4"})._replace(sources_ready=False, ended=frozenset({"u"}))
    assert stale_cpus(observed) == EMPTY
    assert cpu_usage(MACHINE, observed, EMPTY).free == cpus("5-15")


def test_cpus_of_a_terminated_pod_that_is_still_listed_are_held() -> None:
    """Kubelets before 1.34 list the pod until it is deleted, with its CPUs until they are released."""
    assert stale_cpus(report(pod("ended", c="1-4"), u={"c": "1-4"})) == EMPTY
    assert stale_cpus(report(pod("ended", c=""), u={"c": "1-4"})) == cpus("1-4")


@pytest.mark.parametrize("uid", [UNKNOWN_POD])
def test_an_entry_without_a_uid_is_held(uid: str) -> None:
    """Releases before 1.18 name containers by their ids, which List does not include."""
    assert stale_cpus(report(**{uid: {"0123abcd": "1-4"}})) == EMPTY


def test_an_entry_of_a_whole_pod() -> None:
    """With pod-level resources, it has no container name, and List has the pod's CPUs in its containers."""
    entries = {"u": {WHOLE_POD: "1-4"}, "v": {WHOLE_POD: "5-8"}}
    assert stale_cpus(report(pod("p", a="1-2", b="3"), **entries)) == cpus("5-8")


def test_without_the_file_nothing_is_known() -> None:
    """If the file cannot be read, no entry is stale."""
    assert stale_cpus(report(pod("p", c="1"))._replace(state=StateFiles())) == EMPTY


@given(node_histories())
def test_never_a_cpu_of_a_pod_that_is_alive(history: NodeHistory) -> None:
    """Whatever init containers hold, stale CPUs belong to ended pods. If these are known, all their CPUs are stale."""
    observed = history.report()
    held = CpuSet.union(one.cpus for record in history.records if record.alive for one in record.containers)
    gone = [record for record in history.records if not record.alive and not record.reconciled]
    left = CpuSet.union(one.cpus for record in gone for one in record.containers)
    assert stale_cpus(observed).isdisjoint(held)
    assert stale_cpus(observed) <= left
    assert stale_cpus(observed._replace(ended=history.ended)) == left
