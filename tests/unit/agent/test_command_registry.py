"""The commands by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest

from zonewise.command_registry import (
    BUILT_IN,
    DEPRECATED,
    GROUPS,
    OTHERS,
    by_group,
    entry_points,
    find_command,
    installed_commands,
    load,
)
from zonewise_common.cli.command import CommandError


def test_all_commands_are_installed_here() -> None:
    commands = installed_commands()
    assert set(commands) == {*BUILT_IN, *entry_points()} - DEPRECATED
    of_users = {"queue", "explain", "top", "submit", "cancel", "hold", "release", "forecast", "page", "check"}
    assert of_users <= set(commands)


def test_each_command_is_in_one_group() -> None:
    assert sorted(name for group in GROUPS.values() for name in group) == sorted(installed_commands())
    assert list(by_group(installed_commands())) == list(GROUPS)


def test_a_command_of_another_package_comes_last_and_a_missing_one_is_left_out() -> None:
    assert by_group(["number", "up", "show"]) == {"this machine": ["show"], "simulation": ["up"], OTHERS: ["number"]}


def test_each_help_is_one_line_without_a_full_stop() -> None:
    for name, command in installed_commands().items():
        assert command.help, name
        assert not command.help.endswith("."), name
        assert "\n" not in command.help, name


def test_a_command_whose_package_is_missing_is_omitted(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = EntryPoint("queue", "no_such_package:COMMAND", "zonewise.commands")
    monkeypatch.setattr("zonewise.command_registry.entry_points", lambda: {"queue": missing})
    assert "queue" not in installed_commands()
    with pytest.raises(CommandError, match="check that its part of zonewise is installed"):
        load(missing)


def test_unknown_names() -> None:
    with pytest.raises(CommandError, match=r"unknown command quue: did you mean queue\?"):
        find_command("quue")
    with pytest.raises(CommandError, match="unknown command nope: the commands are adopt, agent"):
        find_command("nope")
    with pytest.raises(CommandError, match="unknown option -x; see `zonewise --help`"):
        find_command("-x")
