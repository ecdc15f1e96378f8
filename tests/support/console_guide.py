"""Guides whose console blocks are run: commands with their outputs, compared without times and generated suffixes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r'^```bash title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)


class ConsoleStep(NamedTuple):
    """A command of a guide, and what it prints."""

    command: str
    output: str


def console_steps(page: str) -> list[ConsoleStep]:
    """Return the commands of a page in their order."""
    steps: list[ConsoleStep] = []
    for block in _BLOCK.findall(page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            steps.append(ConsoleStep(command, output))
    return steps


def write_files(page: str, directory: Path) -> None:
    """Write the scripts that a page shows with a title."""
    for name, content in _FILE.findall(page):
        (directory / name).write_text(content)


def with_outputs(page: str, outputs: list[str]) -> str:
    """Return a page with other outputs, in the order of its commands: to renew the guide."""
    remaining = iter(outputs)

    def block(match: re.Match[str]) -> str:
        commands = [part.partition("\n")[0] for part in re.split(r"^\$ ", match[1], flags=re.MULTILINE)[1:]]
        return "```console\n" + "".join(f"$ {command}\n{next(remaining)}" for command in commands) + "```"

    return _BLOCK.sub(block, page)


def timeless(text: str) -> list[list[str]]:
    """Return the words of each line, with every time and every generated suffix as one word."""
    text = re.sub(r"\x1b\[\d*m", "", text)
    text = re.sub(r"-[a-z0-9]{5}\b(?=[ ;]|$)", "-SUFFIX", text, flags=re.MULTILINE)
    text = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d UTC", "TIME", text)
    text = re.sub(r"\b(\d+[smhd])+\b|\bnow\b", "DURATION", text)
    text = re.sub(r"\bin DURATION\b|\bwaited for \d+ s\b", "DURATION", text)
    return [line.split() for line in text.splitlines() if line.strip()]
