"""The arguments for the pods of a sweep, derived from those of the command, and the files that the pods read."""

from __future__ import annotations

from argparse import ArgumentTypeError
from contextlib import suppress
from decimal import Decimal
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

from zonewise_common.cli.command import CommandError
from zonewise_scheduler.commands.arguments import UNITS, duration
from zonewise_scheduler.commands.simulation_inputs import sources
from zonewise_scheduler.simulator.inputs.documents import document_files
from zonewise_scheduler.simulator.inputs.source_files import InputError
from zonewise_scheduler.simulator.sweep.indexed_job import INPUTS, MAX_INPUT_BYTES, MESSAGE_FILE

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator


def part_arguments(arguments: Namespace) -> list[str]:
    """Return the `zonewise` arguments for a pod, which simulates the run of its index."""
    return ["simulate", *_pairs(arguments), "--part", MESSAGE_FILE]


def input_files(arguments: Namespace) -> dict[str, bytes]:
    """Return the files that pods read from a ConfigMap, by path. Raises CommandError if they are too large."""
    if arguments.inputs is not None:
        return {}
    files: dict[str, bytes] = {}
    for name, text in sources(arguments).items():
        if (path := _existing(text)) is not None:
            files |= {f"{name}/{file.relative_to(path.parent)}": content for file, content in _contents(path)}
    size = sum(map(len, files.values()))
    if size > MAX_INPUT_BYTES:
        raise CommandError(
            f"{arguments.trace}: the files have {size} bytes, but a ConfigMap holds at most {MAX_INPUT_BYTES}: put "
            "them into the image, and set their directory there with --inputs"
        )
    return files


def _contents(path: Path) -> Iterator[tuple[Path, bytes]]:
    try:
        for file in document_files(str(path)) if path.is_dir() else [path]:
            yield Path(file), Path(file).read_bytes()
    except InputError as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error


def _pairs(arguments: Namespace) -> Iterator[str]:
    """Yield the options and values in a fixed order, whatever their order on the command line."""
    yield _remote(arguments, "trace") or arguments.trace
    texts = {
        "policy": arguments.policy,
        "compare": ",".join(arguments.compare) or None,
        "reserve-after": _duration(arguments.reserve_after),
        "nodes": _remote(arguments, "nodes") or arguments.nodes,
        "jobs": arguments.jobs,
        "load": _number(arguments.load),
        "seed": arguments.seed,
        "repeat": arguments.repeat,
        "loads": None if arguments.loads is None else ",".join(map(_known, arguments.loads)),
        "start-latency": None if arguments.start_latency is None else "-".join(map(_seconds, arguments.start_latency)),
        "rate": None if arguments.rate is None else f"{_known(arguments.rate[0])}/{arguments.rate[1]}",
        "release-latency": _duration(arguments.release_latency),
        "grace": _duration(arguments.grace),
    }
    for name, text in texts.items():
        if text is not None:
            yield from (f"--{name}", str(text))
    for name in ("exact", "whole_nodes"):
        if getattr(arguments, name):
            yield f"--{name.replace('_', '-')}"
    if arguments.deadlines is not None:
        yield "--deadlines" if arguments.deadlines else "--no-deadlines"


def _remote(arguments: Namespace, name: str) -> str | None:
    """Return the path of an argument's file in a pod; None if the argument names no file."""
    path = _existing(sources(arguments).get(name, ""))
    if path is None:
        return None
    return f"{INPUTS}/{name}/{path.name}" if arguments.inputs is None else f"{arguments.inputs}/{path.name}"


def _existing(text: str) -> Path | None:
    """Return the path of a file or directory, which ends in its name; that of a link is its own."""
    path = Path(text)
    if not text or not path.exists():
        return None
    return path.resolve() if path.name in ("", "..") else path


def _duration(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return "never" if seconds == inf else _seconds(seconds)


def _seconds(seconds: float) -> str:
    """Return a duration in the unit in which it was written: its number may have too many digits in other units."""
    for unit, size in UNITS.items():
        text = f"{_known(float(f'{seconds / size:.15g}'))}{unit}"
        with suppress(ArgumentTypeError):
            if duration(text) == seconds:
                return text
    raise AssertionError("its own unit takes every duration")


def _number(number: float | None) -> str | None:
    return None if number is None else _known(number)


def _known(number: float) -> str:
    """Return a number without an exponent, as arguments require."""
    return format(Decimal(repr(number)).normalize(), "f")
