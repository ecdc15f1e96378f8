"""`zonewise capture`: writes a machine to a file, to inspect elsewhere and to attach to a bug report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.commands.root import open_files
from zonewise.machine.capture.archive_writer import CaptureError, capture
from zonewise.machine.files import LIVE_ROOT
from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output import STANDARD_OUTPUT, write

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add = parser.add_argument
    add("file", metavar="FILE", help="archive to write, .tar.zst or .tar.gz")
    add(
        "--root",
        default=LIVE_ROOT,
        metavar="PATH",
        help="directory or archive to capture from, instead of this machine",
    )
    add("--with-identifiers", action="store_true", help="keep MAC addresses, GUIDs, serial numbers, the hostname and "
        "the kernel command line")  # fmt: skip
    add("--force", action="store_true", help="replace the file if it exists")


def run(arguments: Namespace) -> int:
    """Write the capture, and print a summary of its content. Raises CommandError."""
    files = open_files(arguments.root)
    try:
        summary = capture(files, arguments.file, with_identifiers=arguments.with_identifiers, replace=arguments.force)
    except CaptureError as error:
        raise CommandError(str(error)) from error
    identifiers = "with identifiers: share it with care" if arguments.with_identifiers else "identifiers replaced"
    sizes = (
        f"{summary.files} files and {summary.links} links, {summary.content >> 10} KiB in {summary.archive >> 10} KiB"
    )
    write(f"{arguments.file}: {sizes}; {identifiers}\n", STANDARD_OUTPUT)
    write(f"Show the machine with `zonewise show --root {arguments.file}`.\n", STANDARD_OUTPUT)
    return 0


COMMAND = Command("archive everything that discovery reads on this machine", add_arguments, run)
