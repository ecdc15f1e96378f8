"""The extender while the API server is unavailable, and after the server has returned, as it was or from a backup."""

from __future__ import annotations

import contextlib

from support.extender import Caller, build_pod, new_cluster, running_extender
from support.ledger_kubelets import SHARED, SINGLE, Kubelet, node_kind, pod_shape
from zonewise_sandbox.up.ports import reserved_port
from zonewise_scheduler.admission.node import idle_node

KIND = node_kind(SINGLE, gpus=0)
PLURALS = ("nodes", "noderesourcetopologies", "pods")
"""Each watch must fail twice: after one failure it reconnects, and detects the older history only by its silence."""
AGES = [f'zonewise_watch_age_seconds{{resource="{resource}"}}' for resource in ("nodes", "reports", "pods")]


def test_an_api_server_that_is_down_and_returns_from_a_backup() -> None:
    """During the outage, the extender is not ready and reports are stale; then objects count despite lower versions."""
    with reserved_port() as port, contextlib.ExitStack() as stack:
        with new_cluster(port) as world:
            world.add_node("n")
            world.report(Kubelet("n", idle_node(KIND)))
            # objects listed after these have versions that the next server does not reach
            for index in range(50):
                world.create(build_pod(f"filler-{index}", SHARED))
            flags = ("--api-server", f"http://127.0.0.1:{port}", "--watch-stale-after", "1s", "--log-level", "debug")
            extender = stack.enter_context(running_extender(*flags))
            extender.until(extender.ready)
            caller = stack.enter_context(contextlib.closing(Caller(extender)))
            extender.until(lambda: "freeCpus" in extender.state("n"))
            assert caller.filter(build_pod("p", pod_shape((4, 0))) | uid("p"), ["n"]).selected_node == "n"
            assert [extender.metric(age) for age in AGES] == [0.0, 0.0, 0.0]
        extender.until(lambda: not extender.ready())
        extender.until(lambda: all(extender.said.count(f" {plural}: GET ") >= 2 for plural in PLURALS))
        assert extender.get("/readyz")[1].startswith("not current: ")
        assert all(extender.metric(age) > 0.0 for age in AGES)
        extender.until(lambda: extender.metric('zonewise_nodes{state="stale"}') == 1)
        assert caller.filter(build_pod("q", pod_shape((4, 0))) | uid("q"), ["n"]).reasons["n"].endswith("stale")
        assert caller.filter(build_pod("s", SHARED) | uid("s"), ["n"]).json["NodeNames"] == ["n"]
        with new_cluster(port) as world:
            world.add_node("new")
            world.report(Kubelet("new", idle_node(KIND)))
            extender.until(extender.ready)
            extender.until(lambda: "freeCpus" in extender.state("new"))
            extender.until(lambda: extender.state("n") == {})
            extender.until(lambda: extender.metric('zonewise_nodes{state="reported"}') == 1)
            selected = caller.filter(build_pod("r", pod_shape((4, 0))) | uid("r"), ["n", "new"])
            assert selected.selected_node == "new"
            extender.until(lambda: [extender.metric(age) for age in AGES] == [0.0, 0.0, 0.0])
        extender.close()


def uid(name: str) -> dict[str, object]:
    """Return the metadata that the API server would have given a pod."""
    return {"metadata": {"name": name, "namespace": "lab", "uid": f"uid-{name}"}}
