"""Slots of bindings: whatever hangs in some namespaces, threads remain for the other verbs, and a slot for others."""

from __future__ import annotations

import http.client
import json
import threading
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.waiting import PATIENCE
from zonewise_common.service.http_server import serving
from zonewise_common.service.request_threads import THREADS
from zonewise_sandbox.up.ports import reserved_port
from zonewise_scheduler.extender.binding_slots import SLOTS, BindingSlots, TooManyBindings
from zonewise_scheduler.extender.handler import Extender, ExtenderHandler
from zonewise_scheduler.extender.metrics import ExtenderMetrics

if TYPE_CHECKING:
    from zonewise_scheduler.extender.types import CandidateNodes, ExtenderBindingArgs, ExtenderFilterResult


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=100))
def test_a_namespace_leaves_a_slot_to_others(events: list[tuple[str, bool]]) -> None:
    slots = BindingSlots()
    held: list[tuple[str, ExitStack]] = []
    for namespace, begins in events:
        if begins:
            stack = ExitStack()
            count = sum(name == namespace for name, _ in held)
            if count < SLOTS - len(held):
                stack.enter_context(slots.slot(namespace))
                held.append((namespace, stack))
            else:
                with pytest.raises(TooManyBindings, match=rf"^{count} .* {len(held)} in all wait for the API server"):
                    stack.enter_context(slots.slot(namespace))
        elif held:
            held.pop(0)[1].close()
        assert len(held) <= SLOTS < THREADS - 1
        if len({name for name, _ in held}) <= 2:
            with slots.slot("other"):
                pass


def test_an_error_frees_the_slot() -> None:
    slots = BindingSlots()
    for _ in range(2 * SLOTS):
        with pytest.raises(ValueError, match="failed"), slots.slot("a"):
            raise ValueError("failed")


class HangingVerbs:
    """Bindings that hang until they are released, and a filter that responds at once."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.calls = threading.Semaphore(0)

    def bind(self, _binding: ExtenderBindingArgs) -> None:
        self.calls.release()
        self.released.wait(PATIENCE)

    def filter(self, _pod: dict[str, Any], candidates: CandidateNodes) -> ExtenderFilterResult:
        return candidates.pass_all()


def test_filter_is_served_while_the_bindings_of_two_namespaces_hang() -> None:
    verbs = HangingVerbs()
    handler = ExtenderHandler(cast("Extender", verbs), ExtenderMetrics(), bind=True)
    results: list[str] = []

    def bind(port: int, namespace: str) -> None:
        arguments = {"PodName": "p", "PodNamespace": namespace, "PodUID": "u", "Node": "n"}
        results.append(call(port, "/bind", arguments)["Error"])

    with reserved_port() as port, serving(f"127.0.0.1:{port}", handler):
        calls = [threading.Thread(target=bind, args=(port, name)) for name in "ab" * 100]
        for thread in calls:
            thread.start()
        try:
            assert all(verbs.calls.acquire(timeout=PATIENCE) for _ in range(SLOTS * 2 // 3))
            assert call(port, "/filter", {"Pod": {}, "NodeNames": ["n"]})["NodeNames"] == ["n"]
        finally:
            verbs.released.set()
            for thread in calls:
                thread.join()
    assert len(results) == len(calls)
    assert any("bindings of the namespace" in result for result in results)


def call(port: int, path: str, arguments: dict[str, Any]) -> dict[str, Any]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)) as connection:
        connection.request("POST", path, json.dumps(arguments))
        return json.loads(connection.getresponse().read())
