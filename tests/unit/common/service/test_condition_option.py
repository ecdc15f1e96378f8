"""The option that names conditions of nodes."""

from __future__ import annotations

import pytest

from zonewise_common.k8s.hardware_conditions import NODE_CONDITIONS
from zonewise_common.service.condition_option import condition_types


@pytest.mark.parametrize(
    ("value", "types"),
    [
        ("", ()),
        ("hardware", NODE_CONDITIONS),
        ("GPUHardwareFault, KernelDeadlock", ("GPUHardwareFault", "KernelDeadlock")),
        (["hardware", "GPUHardwareFault", "example.com/Broken"], (*NODE_CONDITIONS, "example.com/Broken")),
    ],
)
def test_types(value: object, types: tuple[str, ...]) -> None:
    assert condition_types(value) == types


@pytest.mark.parametrize("value", ["Ready", "no type", "-", 7, None, ["a", 1], {"a": "b"}, True])
def test_other_values_are_rejected(value: object) -> None:
    with pytest.raises(ValueError, match="must"):
        condition_types(value)
