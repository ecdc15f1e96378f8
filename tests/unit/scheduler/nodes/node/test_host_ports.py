"""Host ports, according to HostPortInfo of k8s.io/kube-scheduler/framework."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.k8s.fields import FieldError
from zonewise_scheduler.nodes.node.host_ports import ALL_ADDRESSES as ALL
from zonewise_scheduler.nodes.node.host_ports import HostPort, host_ports, ports_conflict


@pytest.mark.parametrize(
    ("requested", "used", "expected"),
    [
        (HostPort(ALL, "TCP", 80), HostPort(ALL, "TCP", 80), True),
        (HostPort(ALL, "TCP", 80), HostPort(ALL, "UDP", 80), False),
        (HostPort(ALL, "TCP", 80), HostPort(ALL, "TCP", 81), False),
        (HostPort(ALL, "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort(ALL, "TCP", 80), True),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.2", "TCP", 80), False),
        (HostPort("10.0.0.1", "TCP", 80), HostPort("10.0.0.1", "TCP", 80), True),
    ],
)
def test_conflicts(requested: HostPort, used: HostPort, expected: bool) -> None:
    assert ports_conflict([requested], [HostPort("10.9.9.9", "SCTP", 1), used]) is expected


PORTS = st.builds(
    HostPort, st.sampled_from([ALL, "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(1, 2)
)


@given(st.lists(PORTS), st.lists(PORTS))
def test_conflict_is_mutual(left: list[HostPort], right: list[HostPort]) -> None:
    assert ports_conflict(left, right) is ports_conflict(right, left)


def test_ports_by_role() -> None:
    ports: list[Any] = [{"containerPort": 8080, "hostPort": 80}, {"containerPort": 9090}]
    sidecar_ports: list[Any] = [{"containerPort": 1, "hostPort": 81, "hostIP": "10.0.0.1", "protocol": "UDP"}]
    spec: dict[str, Any] = {
        "containers": [{"ports": ports}],
        "initContainers": [{"ports": sidecar_ports, "restartPolicy": "Always"}, {"ports": [{"hostPort": 82}]}],
    }
    assert host_ports({"spec": spec}) == (HostPort(ALL, "TCP", 80), HostPort("10.0.0.1", "UDP", 81))
    assert HostPort(ALL, "TCP", 9090) in host_ports({"spec": spec | {"hostNetwork": True}})


@pytest.mark.parametrize("value", ["80", 65536, -1, True])
def test_invalid_port(value: object) -> None:
    with pytest.raises(FieldError, match=r"spec\.containers\[0\]\.ports\.hostPort: not a port"):
        host_ports({"spec": {"containers": [{"ports": [{"hostPort": value}]}]}})
