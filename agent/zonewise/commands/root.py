"""The option --root of commands that read this machine or a captured one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.archive import open_root
from zonewise.machine.files import LIVE_ROOT, RootError
from zonewise_common.cli.command import CommandError

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from zonewise.machine.files import Files
    from zonewise.nfd.types import LocalFeatures


def add_root_argument(parser: ArgumentParser) -> None:
    """Declare --root, whose default is this machine."""
    parser.add_argument(
        "--root",
        default=LIVE_ROOT,
        metavar="PATH",
        help="directory or archive of a captured machine (default: this machine)",
    )


def open_files(root: str) -> Files:
    """Return the files of the machine at `root`. Raises CommandError."""
    try:
        return open_root(root)
    except RootError as error:
        raise CommandError(str(error)) from error


def local_features(files: Files) -> LocalFeatures:
    """Return the content of the machine's feature files, which `zonewise capture` leaves out."""
    from datetime import UTC, datetime

    from zonewise.nfd.feature_files import FEATURES_DIRECTORY, read_local_features

    return read_local_features(files, FEATURES_DIRECTORY, datetime.now(UTC))
