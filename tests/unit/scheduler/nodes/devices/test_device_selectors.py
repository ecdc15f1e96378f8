"""The readable part of CEL selectors. Whatever cannot be read must not exclude a device."""

from __future__ import annotations

import pytest

from zonewise_scheduler.nodes.devices.device_selectors import DeviceRequirement, device_requirements

DRIVER = DeviceRequirement("", "", "a.io")
KIND = DeviceRequirement("a.io", "type", "gpu")


@pytest.mark.parametrize(
    ("expression", "requirements"),
    [
        ('device.driver == "a.io"', (DRIVER,)),
        ("device.driver=='a.io'", (DRIVER,)),
        ('device.driver == "a.io" &&\n device.attributes["a.io"].type == "gpu"', (DRIVER, KIND)),
        ('device.attributes["a.io"]["type"] == "gpu" && device.driver == "a.io"', (KIND, DRIVER)),
        ('device.attributes["a.io"].n == 4', (DeviceRequirement("a.io", "n", 4),)),
        ('device.attributes["a.io"].ok == true', (DeviceRequirement("a.io", "ok", True),)),
        ('device.attributes["a.io"].type == "a && c"', (DeviceRequirement("a.io", "type", "a && c"),)),
        ('device.driver == "a.io" && (x || y)', (DRIVER,)),
        ('device.driver == "a.io" && device.capacity["a.io"].memory.isGreaterThan(quantity("1Gi"))', (DRIVER,)),
        ('device.driver == "a.io" || true', ()),
        ('x && device.driver == "a.io" || y', ()),
        ('x ? device.driver == "a.io" : y', ()),
        ('!(x && device.driver == "a.io" && y)', ()),
        ('[")"].size() == 1 && !(x && device.driver == "a.io" && y)', ()),
        ('!device.driver == "a.io"', ()),
        ('device.driver != "a.io"', ()),
        ('device.driver == "a\\x2eio"', ()),
        ('device.driver == "a.io" // && device.driver == "b.io"', ()),
        ('x) && device.driver == "a.io" && (y', ()),
        ("", ()),
    ],
)
def test_what_an_expression_requires(expression: str, requirements: tuple[DeviceRequirement, ...]) -> None:
    assert device_requirements([expression]) == requirements


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        ({"type": {"string": "gpu"}}, True),
        ({"a.io/type": {"string": "gpu"}}, True),
        ({"type": {"string": "mig"}}, False),
        ({"type": {"string": "mig"}, "a.io/type": {"string": "gpu"}}, True),
        ({"type": {"version": "1.0.0"}}, True),
        ({"type": {"int": 4}}, True),
        ({"b.io/type": {"string": "gpu"}}, False),
        ({}, False),
    ],
)
def test_the_devices_that_may_match(attributes: dict[str, dict[str, object]], *, allowed: bool) -> None:
    """A value of another type is an error in CEL, or not known here."""
    assert KIND.allows("a.io", attributes) is allowed
    assert DRIVER.allows("a.io", attributes)
    assert not DRIVER.allows("b.io", attributes)


def test_a_name_without_a_domain_has_that_of_the_driver() -> None:
    assert not KIND.allows("b.io", {"type": {"string": "gpu"}})
