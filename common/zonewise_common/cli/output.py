"""Writing the output of a command to a file, or to standard output in a supported encoding."""

from __future__ import annotations

import sys

from zonewise_common.cli.command import CommandError

STANDARD_OUTPUT = "-"


def write(text: str, path: str) -> None:
    """Write text to a file as UTF-8, or to standard output if the path is "-".

    Raises CommandError if the text cannot be written, and BrokenPipeError if the reader has closed the pipe.
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
    """Return whether standard output can encode every character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
