"""ResourceClaims, reduced to the devices that they hold."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zonewise_scheduler.nodes.devices.allocated_claims import AllocatedClaim, HeldDevice, decode_claim

Json = dict[str, Any]

NODE = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
GPUS = "deviceclass.resource.kubernetes.io/gpus"


def result(device: str, request: str = "gpu", **fields: Any) -> Json:
    return {"request": request, "driver": "a.io", "pool": "p", "device": device, **fields}


def claim(*results: Json, **metadata: Any) -> AllocatedClaim:
    requests: list[Json] = [
        {"name": "gpu", "exactly": {"deviceClassName": "gpus", "count": 2}},
        {"name": "any", "firstAvailable": [{"name": "big", "deviceClassName": "gpus"}]},
    ]
    obj: Json = {
        "metadata": {"namespace": "ns", "name": "c", **metadata},
        "spec": {"devices": {"requests": requests}},
        "status": {
            "allocation": {"devices": {"results": list(results)}, "nodeSelector": {"nodeSelectorTerms": [NODE]}},
            "reservedFor": [],
        },
    }
    return decode_claim(json.dumps(obj).encode())


def test_a_claim_holds_the_devices_of_its_allocation() -> None:
    read = claim(result("d0"), result("d1", "any/big"))
    assert read == AllocatedClaim(
        "ns", "c", "", False, (HeldDevice(("a.io", "p"), "d0", GPUS), HeldDevice(("a.io", "p"), "d1", "")), (NODE,)
    )


def test_admin_access_and_shares_hold_no_device() -> None:
    read = claim(result("d0", adminAccess=True), result("d1", shareID="x"), result("d2", adminAccess=False))
    assert [device.name for device in read.devices] == ["d2"]


@pytest.mark.parametrize("obj", [{}, {"status": {}}, {"spec": {"devices": {}}}, {"status": {"allocation": {}}}])
def test_a_claim_without_allocation_holds_none(obj: Json) -> None:
    obj = {"metadata": {"namespace": "ns", "name": "c"}, **obj}
    assert decode_claim(json.dumps(obj).encode()).devices == ()


def test_only_the_controller_of_a_claim_is_its_pod() -> None:
    owners = [{"kind": "Pod", "name": "user"}, {"kind": "Pod", "name": "p", "controller": True}]
    assert claim(ownerReferences=owners[:1]).pod == ""
    of_pod = claim(ownerReferences=owners)
    assert (of_pod.pod, of_pod.nodes) == ("p", ())
    assert claim(ownerReferences=[{"kind": "PodGroup", "name": "p", "controller": True}]).pod == ""


@pytest.mark.parametrize(("value", "extended"), [("true", True), ("false", False)])
def test_kube_scheduler_marks_the_claims_that_it_makes_for_extended_resources(value: str, *, extended: bool) -> None:
    read = claim(annotations={"resource.kubernetes.io/extended-resource-claim": value})
    assert read.is_extended is extended
