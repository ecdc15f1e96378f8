"""The output files of `zonewise simulate`: checked before the simulation, written after it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_common.cli.command import CommandError, require_extra
from zonewise_common.cli.output import STANDARD_OUTPUT, write
from zonewise_scheduler.commands.simulation_inputs import sources
from zonewise_scheduler.simulator.inputs.documents import SUFFIXES
from zonewise_scheduler.simulator.plot.plot_file import check_plot_path
from zonewise_scheduler.simulator.report.atomic_files import atomic_replacement, check_writable

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Iterable


def check_outputs(arguments: Namespace) -> None:
    """Check before the simulation that every file will be writable after it."""
    if arguments.json_jobs and arguments.json is None:
        raise CommandError("--json-jobs works only with --json")
    try:
        if arguments.plot is not None:
            with require_extra("plot"):
                check_plot_path(arguments.plot)
        inputs = {Path(text).resolve(): f"the {name}" for name, text in sources(arguments).items()}
        reserved = {path: f"is {role}, and is not overwritten" for path, role in inputs.items()}
        for path in _output_files(arguments):
            check_writable(path)
            if reason := reserved.get(path.resolve()):
                raise CommandError(f"{path}: {reason}")
            if path.suffix in SUFFIXES and (role := inputs.get(path.resolve().parent)):
                raise CommandError(f"{path}: is in the directory of {role}, and would be read as input")
            reserved[path.resolve()] = "is also the file of the JSON: write the picture to another file"
    except ValueError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}" if error.strerror else str(error)) from error


def _output_files(arguments: Namespace) -> list[Path]:
    return [file for file in (_json_file(arguments), arguments.plot) if file is not None]


def _json_file(arguments: Namespace) -> Path | None:
    """Return the file for the JSON; None for standard output or no JSON."""
    return None if arguments.json in (None, STANDARD_OUTPUT) else Path(arguments.json)


def write_results(
    arguments: Namespace,
    text: str,
    document: Callable[[], Iterable[str]],
    draw: Callable[[Path], object] | None = None,
) -> None:
    """Write the files that the arguments name, and print the text or the JSON. Raises CommandError.

    `document` returns a new iterator over the pieces of the JSON on each call. Without `draw`, no picture is written.
    """
    if (file := _json_file(arguments)) is not None:
        _write_file(file, lambda path: _write_pieces(path, document()))
    if arguments.plot is not None and draw is not None:
        _write_file(arguments.plot, draw)
    for piece in document() if arguments.json == STANDARD_OUTPUT else [text]:
        write(piece, STANDARD_OUTPUT)


def _write_file(file: Path, write_to: Callable[[Path], object]) -> None:
    try:
        with atomic_replacement(file) as path:
            write_to(path)
    except OSError as error:
        raise CommandError(f"{file}: cannot be written: {error.strerror or error}") from error


def _write_pieces(path: Path, pieces: Iterable[str]) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(pieces)
