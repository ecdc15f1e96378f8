"""`zonewise rules test` and `zonewise rules lint`: their output and their exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.rules import expression, recordings, rule_object
from zonewise.cli import main

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("plain_environment")

MATCHING = {"labels": {"example.com/cpu": "true"}, "matchFeatures": [{"feature": "cpu.cpuid"}]}
FAILING = {"matchFeatures": [{"feature": "cpu.cpuid", "matchName": expression("InRegexp", "(")}]}
Capture = pytest.CaptureFixture[str]


def written(tmp_path: Path, *documents: Any) -> str:
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump_all(documents))
    return str(path)


def test_rules_on_a_captured_machine(server: str, tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, rule_object(MATCHING, name="object"))
    assert main(["rules", "test", file, "--root", server]) == 0
    output = capsys.readouterr().out
    assert "NodeFeatureRule object: rule 'rule 0' matches" in output
    assert output.endswith("labels:\n  example.com/cpu=true\n")


def test_another_machine_does_not_get_the_name_of_the_pods_node(
    server: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """$NODE_NAME applies only to the running machine."""
    monkeypatch.setenv("NODE_NAME", "worker-3")
    named = {"matchExpressions": {"nodename": expression("In", "worker-3")}}
    file = written(tmp_path, rule_object({"matchFeatures": [{"feature": "system.name", **named}]}))
    for arguments, verdict in ((), " matches"), (("--root", server), " does not match"):
        assert main(["rules", "test", file, *arguments]) == 0
        assert verdict in capsys.readouterr().out


def test_rules_on_the_features_of_an_object_as_json(tmp_path: Path, capsys: Capture) -> None:
    features = tmp_path / "features.json"
    spec = {"features": recordings()["features"]["machine"]}
    features.write_text(json.dumps({"kind": "NodeFeature", "spec": spec}))
    group = rule_object(MATCHING, name="g", kind="NodeFeatureGroup")
    objects = {"kind": "List", "items": [rule_object(MATCHING, FAILING, name="object"), group]}
    assert main(["rules", "test", written(tmp_path, objects), "--node-feature", str(features), "-o", "json"]) == 1
    result = json.loads(capsys.readouterr().out)
    assert [(rule["rule"], rule["matched"], rule["error"] is None) for rule in result["rules"]] == [
        ("rule 0", True, True), ("rule 1", False, False), ("rule 0", True, True),
    ]  # fmt: skip
    assert result["labels"] == {"example.com/cpu": "true"}
    assert result["groups"] == ["g"]
    assert result["rules"][1]["matchers"][0]["terms"][0]["expressions"][0]["text"] == 'name InRegexp ["("]'


@pytest.mark.parametrize("action", ["test", "lint"])
def test_untrusted_rules_cannot_control_the_terminal(action: str, server: str, tmp_path: Path, capsys: Capture) -> None:
    rule = {"labels": {"example.com/x\x1b[2J": "true"}, **FAILING}
    machine = () if action == "lint" else ("--root", server)
    assert main(["rules", action, written(tmp_path, rule_object(rule, name="a\x1b[2Jb")), *machine]) == 1
    output = capsys.readouterr().out
    assert "a^[[2Jb" in output
    assert "\x1b" not in output


def test_lint(tmp_path: Path, capsys: Capture) -> None:
    assert main(["rules", "lint", written(tmp_path, rule_object(MATCHING))]) == 0
    assert capsys.readouterr().out == "1 object, 0 errors, 0 warnings\n"
    file = written(tmp_path, rule_object(MATCHING, FAILING, name="object"))
    assert main(["rules", "lint", file]) == 1
    assert capsys.readouterr().out == (
        f"{file}: object: error: rule 'rule 1': matchFeatures: cpu.cpuid: matchName: '(' is not a regular expression: "
        "missing ): (\n1 object, 1 error, 0 warnings\n"
    )


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", ": invalid YAML: "),
        ("", "no rules found"),
        ("---\n---\n", "no rules found"),
        ("kind: Pod", "document 1: kind 'Pod' of None is neither NodeFeatureRule nor NodeFeatureGroup"),
        ("[" * 5000, "invalid YAML"),
        ("a: !!bool x", "invalid YAML: 'x'"),
        ("a: &a [*a]", "invalid YAML: with its aliases"),
    ],
)
def test_files_without_rules(content: str, words: str, tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "rules.yaml"
    path.write_text(content)
    assert main(["rules", "test", str(path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "the following arguments are required: test|lint"),
        (["try"], "invalid choice: 'try'"),
        (["lint", "/none.yaml"], "/none.yaml: cannot be read: No such file or directory"),
        (["lint", "/dev"], "/dev: cannot be read: Is a directory"),
        (["test", "--node-feature", "RULES", "RULES"], "kind 'NodeFeatureRule' is not NodeFeature"),
        (["test", "--root", "/none", "RULES"], "root /none: no such file or directory"),
    ],
)
def test_wrong_arguments(arguments: list[str], words: str, tmp_path: Path, capsys: Capture) -> None:
    file = written(tmp_path, rule_object(MATCHING))
    assert main(["rules", *(file if word == "RULES" else word for word in arguments)]) == 2
    assert words in capsys.readouterr().err
