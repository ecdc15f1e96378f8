"""Writing what a command made: to a file, or to standard output in an encoding that can take it."""

from __future__ import annotations

import sys

from zonewise_common.cli.command import CommandError

STANDARD_OUTPUT = "-"


def write(text: str, path: str) -> None:
    """Write text to a file as UTF-8, or to standard output where the path is "-".

    Raises CommandError where that is impossible, and BrokenPipeError where a reader has gone away.
    """
    try:
        if path == STANDARD_OUTPUT:
            encoding = sys.stdout.encoding or "utf-8"
            sys.stdout.write(text.encode(encoding, "replace").decode(encoding))
            sys.stdout.flush()
        else:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "standard output" if path == STANDARD_OUTPUT else path
        raise CommandError(f"cannot write to {where}: {error.strerror}") from error


def supports_unicode() -> bool:
    """Tell whether standard output takes every character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
