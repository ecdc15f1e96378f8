"""Runs the console blocks of guides and compares their output, ignoring times and generated suffixes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r'^```bash title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


_RULES = (
    (r"\x1b\[\d*m", ""),
    (r"https?://127\.0\.0\.1:\d+/?", "URL"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
    (r"\b(\d{4}-\d\d-\d\d )?\d\d:\d\d UTC", "TIME"),
    (r"\b\d+(\.\d+)? s\b", "SECONDS"),
    (r"(?<!-)\b(\d+[smhd])+(?=[\s,);.]|$)|\bnow\b", "DURATION"),  # the pod train-1-99d5d has a generated name
    (r"\bin DURATION\b", "DURATION"),
    (r"\bDURATION (before|after)(?= pod)", "DURATION"),
    (r"(?<= deleted) from \S+ namespace$", ""),
    (r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UID"),
    (r"-([bcdfghjklmnpqrstvwxz2456789]{5}|[0-9a-f]{5})(?![-\w])", "-SUFFIX"),
)
"""Patterns for text that differs between runs, with replacements: ports, times, durations, UIDs, generated names.

kubectl 1.34 and later print the namespace of deleted objects.
"""


class ConsoleStep(NamedTuple):
    """A command of a guide and its output."""

    command: str
    output: str


def console_steps(page: str) -> list[ConsoleStep]:
    """Return the commands of a page in order."""
    steps: list[ConsoleStep] = []
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            steps.append(ConsoleStep(command, output))
    return steps


def write_files(page: str, directory: Path) -> None:
    """Write the scripts that a page shows under a title."""
    for name, content in _FILE.findall(page):
        (directory / name).write_text(content)


def with_outputs(page: str, outputs: list[str]) -> str:
    """Return the page with other outputs, in the order of its commands, to renew the guide."""
    remaining = iter(outputs)

    def block(match: re.Match[str]) -> str:
        commands = [part.partition("\n")[0] for part in re.split(r"^\$ ", match[1], flags=re.MULTILINE)[1:]]
        return "```console\n" + "".join(f"$ {command}\n{next(remaining)}" for command in commands) + "```"

    return _BLOCK.sub(block, page)


def form(output: str) -> list[list[str]]:
    """Return the words of each line of an output, with placeholders for text that differs between runs."""
    for pattern, replacement in _RULES:
        output = re.sub(pattern, replacement, output, flags=re.MULTILINE)
    return [line.split() for line in output.splitlines() if line.strip()]
