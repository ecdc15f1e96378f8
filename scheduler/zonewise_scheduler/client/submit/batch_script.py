"""A batch script and its #SBATCH lines (sbatch(1)), of which those before the first command count."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from zonewise_common.cli.command import CommandError

DIRECTIVE = "#SBATCH"
MAX_BYTES = 900_000
"""Maximum bytes of a script: it is stored in a ConfigMap, which is limited to 1 MiB."""


class BatchScript(NamedTuple):
    """A batch script."""

    content: str
    words: tuple[str, ...] = ()
    """The options of its #SBATCH lines, split into arguments."""
    lines: tuple[int, ...] = ()
    """The line number of each word."""


def read_script(content: str, path: str) -> BatchScript:
    """Return a script with its options. Raises CommandError with the line if a line cannot be parsed."""
    if not content:
        raise CommandError(f"{path}: is empty: use a batch script, or a command with --wrap")
    if not content.startswith("#!"):
        raise CommandError(f"{path}: line 1: a script must begin with #! and its interpreter, such as #!/bin/bash")
    if "\0" in content:
        raise CommandError(f"{path}: is not a script: it contains a zero byte")
    try:
        size = len(content.encode())
    except UnicodeEncodeError:  # standard input with bytes that are not UTF-8 (PEP 383)
        raise CommandError(f"{path}: is not text: it contains bytes that are not UTF-8") from None
    if size > MAX_BYTES:
        raise CommandError(
            f"{path}: has more than {MAX_BYTES} bytes and does not fit into a ConfigMap: put it into the image"
        )
    words: list[str] = []
    lines: list[int] = []
    for number, line in enumerate(content.replace("\r\n", "\n").split("\n"), 1):
        if line.startswith(DIRECTIVE) and line[len(DIRECTIVE) :][:1] in ("", " ", "\t"):
            try:
                parts = shlex.split(line[len(DIRECTIVE) :], comments=True)
            except ValueError as error:
                raise CommandError(f"{path}: line {number}: {error}: {line.strip()[:80]}") from error
            words += parts
            lines += [number] * len(parts)
        elif line.strip() and not line.lstrip().startswith("#"):
            break
    return BatchScript(content, tuple(words), tuple(lines))


def wrapped_script(command: str) -> BatchScript:
    """Return the script for sbatch's --wrap."""
    return BatchScript(f"#!/bin/sh\n# made by zonewise submit --wrap\n{command}\n")
