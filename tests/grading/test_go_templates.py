"""Templates graded against Go's text/template: the recordings contain templates with Go's output, or an error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from zonewise.rules.template.execution import expand
from zonewise.rules.types import RuleError

RECORDINGS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "fixtures/rules/go_templates.json").read_text())


def expanded(template: str) -> str | None:
    try:
        return expand(template, RECORDINGS["data"])
    except RuleError:
        return None


def test_each_template_has_the_output_of_go() -> None:
    cases: list[tuple[str, str | None]] = RECORDINGS["cases"]
    assert len(cases) > 80
    assert sum(output is not None for _, output in cases) > 40
    differences = [(template, output, ours) for template, output in cases if (ours := expanded(template)) != output]
    assert differences == []
