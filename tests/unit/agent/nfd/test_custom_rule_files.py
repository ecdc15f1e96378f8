"""The directory of custom rules: which files are read, in which order, and the effect of a damaged one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zonewise.machine.files import DirectoryFiles
from zonewise.nfd.custom_rule_files import CustomRuleFiles

if TYPE_CHECKING:
    from pathlib import Path


def names(directory: Path) -> tuple[list[str], tuple[str, ...]]:
    rules, problems = CustomRuleFiles(DirectoryFiles("/"), str(directory)).read()
    return [rule["name"] for rule in rules], problems


def test_files_and_one_level_of_directories(tmp_path: Path) -> None:
    """Files are sorted by name. Hidden ones, deeper levels and the directories of a mounted ConfigMap are ignored."""
    (tmp_path / "b" / "deeper").mkdir(parents=True)
    (tmp_path / "b" / "..data").mkdir()
    (tmp_path / "b" / "..data" / "rules").write_text("- {name: mounted}")
    (tmp_path / "b" / "rules").symlink_to("..data/rules")
    (tmp_path / "b" / "deeper" / "rules").write_text("- {name: deeper}")
    (tmp_path / "c").write_text("[{name: last}, {name: again}]")
    (tmp_path / "a").write_text("- {name: first}\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / ".hidden").write_text("- {name: hidden}")
    assert names(tmp_path) == (["first", "mounted", "last", "again"], ())
    assert names(tmp_path / "absent") == ([], ())


def test_a_damaged_file_loses_only_its_own_rules(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("[")
    (tmp_path / "b").write_text("name: no list")
    (tmp_path / "c").write_text("- {name: good}")
    rules, problems = names(tmp_path)
    assert rules == ["good"]
    assert problems[0].startswith(f"{tmp_path}/a: is no YAML")
    assert problems[1] == f"{tmp_path}/b: is not a list of rules; the file is ignored"


@pytest.mark.parametrize(
    ("rule", "position"),
    [
        ("matchFeature: []", "[0].matchFeature"),
        ("taints: []", "[0].taints"),
        ("matchFeatures: [{feature: a.b, matchExpression: {}}]", "[0].matchFeatures[0].matchExpression"),
        ("matchAny: [{matchFeature: []}]", "[0].matchAny[0].matchFeature"),
        ("matchAny: [{matchFeatures: [{features: a.b}]}]", "[0].matchAny[0].matchFeatures[0].features"),
    ],
)
def test_a_file_with_an_unknown_field_is_ignored(tmp_path: Path, rule: str, position: str) -> None:
    """A misspelled condition must not make a rule match everywhere."""
    (tmp_path / "a").write_text(f"- {{name: bad, {rule}}}")
    (tmp_path / "b").write_text("- {NAME: good, matchFeatures: [{feature: a.b, matchExpressions: {k: {unknown: 1}}}]}")
    rules, problems = CustomRuleFiles(DirectoryFiles("/"), str(tmp_path)).read()
    assert [rule["NAME"] for rule in rules] == ["good"]
    assert problems == (f"{tmp_path}/a: contains the unknown field {position}; the file is ignored",)


def test_a_changed_file_is_read(tmp_path: Path) -> None:
    files = CustomRuleFiles(DirectoryFiles("/"), str(tmp_path))
    (tmp_path / "a").write_text("- {name: old}")
    first = files.read()
    assert files.read() == first == (({"name": "old"},), ())
    (tmp_path / "a").write_text("- {name: new}")
    assert files.read() == (({"name": "new"},), ())
    (tmp_path / "a").unlink()
    assert files.read() == ((), ())
