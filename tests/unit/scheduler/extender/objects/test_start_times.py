"""Start times of pods, even if the clock of the node is wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.ledger_kubelets import pod_times, timestamp
from zonewise_scheduler.extender.objects.start_times import StartTimes, read_start_times, seconds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3) | st.just("2026-01-01T00:00:00Z"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["startTime", "conditions", "type", "status", "managedFields", "time", "fieldsV1", "f:status"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("node_time", "started"),
    [(105.0, 105.0), (102.0, 102.0), (-3495.0, 100.0), (3705.0, 110.0)],
    ids=["right", "behind by less than the binding", "behind", "ahead"],
)
def test_a_start_is_between_binding_and_status(node_time: float, started: float) -> None:
    """The start time from the node's clock is limited to the interval between the API server's two timestamps."""
    assert read_start_times(pod_times(100.0, node_time, 110.0)) == StartTimes(started, 110.0)


def test_a_pod_that_has_not_started() -> None:
    """Without a start time from the node, the API server's timestamps do not make the pod started."""
    pod = pod_times(100.0, 105.0, 110.0)
    del pod["status"]["startTime"]
    assert read_start_times(pod) == StartTimes(None, None)


def test_without_stamps() -> None:
    """Without timestamps of the API server, the start time is that of the node's clock."""
    assert read_start_times({"status": {"startTime": timestamp(105.0)}}) == StartTimes(105.0, None)


def test_a_static_pod() -> None:
    """A static pod has no binding; its start counts from the creation of its mirror pod."""
    pod = pod_times(100.0, 90.0, 110.0)
    pod["status"]["conditions"] = []
    assert read_start_times(pod) == StartTimes(100.0, 110.0)


@given(JSON, JSON)
def test_damaged_fields(metadata: Any, status: Any) -> None:
    """No damaged field raises an error."""
    times = read_start_times({"metadata": metadata, "status": status})
    assert times.started is not None or times.confirmed is None


def test_a_time() -> None:
    """Times are decoded from RFC 3339, as metav1.Time is encoded."""
    assert seconds("1970-01-01T00:00:10Z") == 10.0
    assert seconds("yesterday") is None
    assert seconds(5) is None
