"""Writing the output of a command to a file, or to standard output in a supported encoding."""

from __future__ import annotations

import io
import select
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


def check_reader() -> None:
    """Raise BrokenPipeError if standard output is a pipe whose reader has closed it, as in `... --watch | head`.

    Without a write, only poll(2) notices it, as in GNU tail --follow: POLLERR of a pipe, POLLHUP of a socket.
    """
    try:
        descriptor = sys.stdout.fileno()
    except io.UnsupportedOperation:  # it is not a file, as in tests
        return
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0)):
        raise BrokenPipeError


def supports_unicode() -> bool:
    """Return whether standard output can encode every character."""
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
