"""Values that cycles, forecasts and copies of queues share."""

from __future__ import annotations

from dataclasses import is_dataclass
from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import walk_packages

from zonewise_scheduler import quota

STATES = {"Entry"}
"""Values that only a single cycle uses."""


def test_no_value_can_be_changed() -> None:
    """A dataclass is frozen unless it is a state; other values are named tuples."""
    modules = [import_module(each.name) for each in walk_packages(quota.__path__, f"{quota.__name__}.")]
    classes = {value for module in modules for _, value in getmembers(module, isclass) if is_dataclass(value)}
    assert {value.__name__ for value in classes if value.__setattr__ is object.__setattr__} == STATES
