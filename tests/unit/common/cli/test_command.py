"""Commands: errors about missing libraries."""

from __future__ import annotations

from importlib import import_module

import pytest

from zonewise_common.cli.command import CommandError, require_extra


def test_a_missing_library_names_the_extra() -> None:
    """The hint also covers a checkout, which has no package to install: its Makefile installs the libraries."""
    hint = r"install zonewise with the extra \[agent\], or run `make demo` in a checkout$"
    message = rf"No module named 'no_such_library'; {hint}"
    with pytest.raises(CommandError, match=message), require_extra("agent"):
        import_module("no_such_library.part")


@pytest.mark.parametrize("package", ["zonewise", "zonewise_common", "zonewise_sandbox", "zonewise_scheduler"])
def test_a_missing_module_of_our_own_is_a_defect(package: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=f"{package}.no_such_module"), require_extra("agent"):
        import_module(f"{package}.no_such_module")
