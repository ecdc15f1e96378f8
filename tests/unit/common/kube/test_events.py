"""Events that a real API server accepts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from support.apiserver import RealServer, real_server
from zonewise_common.kube.events import MAX_MESSAGE, NODE_NAMESPACE, Occurrences, event, node_reference

if TYPE_CHECKING:
    from typing import Any

__all__ = ["real_server"]

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
POD = {"apiVersion": "v1", "kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}


def a_warning(involved: dict[str, str], message: str = "m", count: int = 1) -> dict[str, Any]:
    seen = Occurrences(NOON, NOON, count)
    return event(involved, "suffix", "a-component", "AReason", message, event_type="Warning", seen=seen)


def test_the_times_are_whole_seconds_of_utc() -> None:
    written = a_warning(node_reference("n"))
    assert (written["firstTimestamp"], written["lastTimestamp"]) == 2 * ("2026-01-02T12:00:00Z",)


@pytest.mark.parametrize("cut", ["a", "-", "."])
def test_the_longest_names_and_messages(cut: str) -> None:
    """A name that is cut anywhere is still valid, and a message is cut only between whole UTF-8 characters."""
    written = a_warning(node_reference("a" * 245 + cut + "a" * 7), "ä" * MAX_MESSAGE)
    assert len(written["metadata"]["name"]) <= 253
    assert written["metadata"]["name"].endswith("a.suffix")
    assert written["message"] == "ä" * (MAX_MESSAGE // 2)


@pytest.mark.parametrize("involved", [node_reference("a" * 253), POD])
def test_a_server_takes_it(real_server: RealServer, involved: dict[str, str]) -> None:
    """The event can be created, and applied again with a higher count."""
    first, again = a_warning(involved, "ä" * MAX_MESSAGE), a_warning(involved, count=2)
    path = f"/api/v1/namespaces/{NODE_NAMESPACE}/events"
    real_server.admin.post(path, first).ok()
    name = first["metadata"]["name"]
    written = real_server.admin.apply(f"{path}/{name}", again, "zonewise-agent", force="true").ok()
    assert (written["count"], written["involvedObject"]) == (2, involved)
