"""The list of damaged or contradictory sources; equal problems of many files are listed once."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zonewise.render.canvas import paint, wrap
from zonewise.render.formatting import clean, format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.problem import Problem
    from zonewise.render.canvas import Line

_NUMBERS = re.compile(r"[0-9a-f]*[0-9][0-9a-f:.]*")
"""Parts in which problems may differ and still be listed as one: numbers and PCI addresses."""


def render_problems(machine: Machine, width: int) -> str:
    """Return the problems, each below its file, in lines of at most `width` columns; "" if there are no problems."""
    groups: dict[tuple[str, ...], list[Problem]] = {}
    for problem in machine.problems:
        texts = (problem.path, problem.problem, problem.used or "")
        groups.setdefault(tuple(_NUMBERS.sub("#", text) for text in texts), []).append(problem)
    lines = [line for group in groups.values() for line in _lines(group, width)]
    return paint(lines, colour=False, unicode=True)


def _lines(problems: Sequence[Problem], width: int) -> list[Line]:
    first = problems[0]
    files = len({problem.path for problem in problems})
    texts = [clean(first.problem)]
    if first.used:
        texts.append(f"fallback: {clean(first.used)}")
    if len(problems) > 1:
        texts.append(f"({format_count(files, 'file')} like this)" if files > 1 else f"({len(problems)} times)")
    body = [line for text in texts for line in wrap([("", text)], width - 2, indent=0)]
    return [*_path_lines(clean(first.path), width), *((("", "  "), *line) for line in body)]


def _path_lines(path: str, width: int) -> list[Line]:
    """Return a path, broken after a slash if it is too long."""
    lines: list[Line] = []
    while len(path) > width:
        cut = path.rfind("/", 1, width) + 1 or width
        lines.append((("", path[:cut]),))
        path = path[cut:]
    return [*lines, (("", path or "the whole machine"),)]
