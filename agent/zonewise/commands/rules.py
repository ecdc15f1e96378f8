"""`zonewise rules`: tries NodeFeatureRules on a machine, and finds errors in them."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any, cast

from zonewise.commands.root import add_root_argument, local_features, open_files
from zonewise.machine.discover import Scanner
from zonewise_common.cli import output
from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.terminal import printable

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace

    from zonewise.rules.explanation import Explanation
    from zonewise.rules.types import RuleObject

MAX_FILE = 4 << 20
"""Maximum bytes of a file of rules; an API server accepts objects of 1.5 MiB."""
_FAILED = 1


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the two commands and their arguments."""
    parser.epilog = (
        "Status 0: evaluated, or without errors; 1: a rule failed, or has errors; "
        "2: a file, the machine or an argument cannot be used."
    )
    commands = parser.add_subparsers(dest="action", metavar="test|lint", required=True)
    test = commands.add_parser("test", help="show which rules match a machine, term by term, and what they set")
    test.description = (
        "Evaluate rules on a machine. Status 0: all rules were evaluated; 1: a rule failed; 2: the rules, the machine "
        "or an argument cannot be used."
    )
    add_root_argument(test)
    test.add_argument("--node-feature", metavar="FILE", help="read the features from a NodeFeature object instead")
    test.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="output format (default: table)"
    )
    lint = commands.add_parser("lint", help="find errors in rules, without a machine")
    lint.description = (
        "Find errors in rules. Status 0: there are none; 1: there are errors; 2: the file cannot be read."
    )
    for action in (test, lint):
        action.add_argument(
            "file",
            metavar="FILE",
            help='file of NodeFeatureRules and NodeFeatureGroups, as YAML or JSON ("-": standard input)',
        )


def run(arguments: Namespace) -> int:
    """Run one of the two commands. Raises CommandError."""
    return _lint(arguments) if arguments.action == "lint" else _test(arguments)


COMMAND = Command("test Node Feature Discovery rules on a machine, or lint them", add_arguments, run)


def _test(arguments: Namespace) -> int:
    from zonewise.rules.explanation import explain_rules
    from zonewise.rules.parsing import parse_object
    from zonewise.rules.types import RuleError

    objects: list[RuleObject] = []
    for i, document in enumerate(_documents(arguments.file)):
        try:
            objects.append(parse_object(document))
        except RuleError as error:
            raise CommandError(f"{_place(arguments.file, i, document)}: {error}") from error
    explanation = explain_rules(objects, _features(arguments))
    if arguments.output == "json":
        text = json.dumps(_json(explanation), indent=2, ensure_ascii=False) + "\n"
    else:
        from zonewise.render.rules import render_explanation

        text = render_explanation(explanation)
    output.write(text, output.STANDARD_OUTPUT)
    return _FAILED if any(rule.outcome.error for rule in explanation.rules) else 0


def _lint(arguments: Namespace) -> int:
    from zonewise.rules.lint import ERROR, lint_document

    documents = _documents(arguments.file)
    problems = [
        (_place(arguments.file, i, document), problem)
        for i, document in enumerate(documents)
        for problem in lint_document(document)
    ]
    lines = [
        printable(": ".join(part for part in (place, problem.severity, problem.where, problem.message) if part))
        for place, problem in problems
    ]
    errors = sum(problem.severity == ERROR for _, problem in problems)
    counts = ((len(documents), "object"), (errors, "error"), (len(problems) - errors, "warning"))
    lines.append(", ".join(f"{count} {name}{'s'[: count != 1]}" for count, name in counts))
    output.write("\n".join(lines) + "\n", output.STANDARD_OUTPUT)
    return _FAILED if errors else 0


# --- input


def _documents(path: str) -> list[object]:
    """Return the documents in a file; a List counts as its items. Raises CommandError."""
    import yaml

    from zonewise_common.k8s.yaml_document import check_aliases

    try:
        documents = list(yaml.load_all(_read(path), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        check_aliases(documents)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise CommandError(f"{path}: {where}invalid YAML: {getattr(error, 'problem', None) or error}") from error
    except (RecursionError, ValueError, LookupError, AttributeError) as error:  # from PyYAML's constructors, too
        raise CommandError(f"{path}: invalid YAML: {error}") from error
    found = [item for document in documents if document is not None for item in _items_of_list(document)]
    if not found:
        raise CommandError(f"{path}: no rules found")
    return found


def _items_of_list(document: object) -> list[object]:
    fields = _fields(document)
    items = fields.get("items")
    return cast("list[object]", items) if fields.get("kind") == "List" and isinstance(items, list) else [document]


def _read(path: str) -> str:
    try:
        if path == "-":
            text = sys.stdin.read(MAX_FILE + 1)
        else:
            with open(path, encoding="utf-8") as file:
                text = file.read(MAX_FILE + 1)
    except OSError as error:
        raise CommandError(f"{path}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: not UTF-8 text") from error
    if len(text) > MAX_FILE:
        raise CommandError(f"{path}: has more than {MAX_FILE} characters")
    return text


def _place(path: str, index: int, document: object) -> str:
    name = _fields(_fields(document).get("metadata")).get("name")
    return f"{path}: {name or f'document {index + 1}'}"


def _fields(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _features(arguments: Namespace) -> Any:  # noqa: ANN401 -- RawFeatures
    if arguments.node_feature:
        return _node_feature(arguments.node_feature)
    from zonewise.objects.feature_groups import FEATURE_GROUPS
    from zonewise.objects.features import node_features

    files = open_files(arguments.root)
    scan = Scanner(files).scan()
    # the name of the running machine would be wrong for another machine's capture
    name = (os.environ.get("NODE_NAME") if files.live else None) or (scan.machine.hostname or "").lower()
    return node_features(scan.machine, FEATURE_GROUPS, local_features(files), node_name=name)


def _node_feature(path: str) -> Any:  # noqa: ANN401 -- RawFeatures
    from zonewise.rules.parsing import parse_features
    from zonewise.rules.types import RuleError

    documents = _documents(path)
    try:
        return parse_features(documents[0])
    except RuleError as error:
        raise CommandError(f"{path}: {error}") from error


# --- output


def _json(explanation: Explanation) -> dict[str, Any]:
    evaluation = explanation.evaluation
    return {
        "rules": [
            {
                "object": rule.outcome.object,
                "kind": rule.outcome.kind,
                "rule": rule.outcome.rule,
                "matched": rule.outcome.matched,
                "error": rule.outcome.error or None,
                "matchers": [
                    {
                        "name": matcher.name,
                        "matched": matcher.matched,
                        "terms": [
                            {**term._asdict(), "expressions": [one._asdict() for one in term.expressions]}
                            for term in matcher.terms
                        ],
                    }
                    for matcher in rule.matchers
                ],
            }
            for rule in explanation.rules
        ],
        "labels": dict(evaluation.labels),
        "annotations": dict(evaluation.annotations),
        "extendedResources": dict(evaluation.extended_resources),
        "taints": [taint._asdict() for taint in evaluation.taints],
        "vars": dict(evaluation.vars),
        "groups": list(evaluation.groups or ()),
        "rejected": [rejection._asdict() for rejection in evaluation.rejections],
    }
