"""`zonewise report`: usage of ended jobs by user, queue or month, from the records of the controller."""

from __future__ import annotations

import csv
import io
import sys
import time
from typing import TYPE_CHECKING

from zonewise_common.cli.argument_types import checked
from zonewise_common.cli.command import Command, CommandError
from zonewise_common.cli.output_format import JSON, TABLE, WIDE, add_output_arguments, render_listing
from zonewise_common.cli.terminal import stdout_terminal

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Iterable, Iterator, Sequence

    from zonewise_common.cli.output_format import Listing
    from zonewise_scheduler.accounting.record_lines import RecordReader
    from zonewise_scheduler.accounting.record_selection import RecordSelection
    from zonewise_scheduler.accounting.run_record import RunRecord

_CSV = "csv"
_FORMATS = (TABLE, WIDE, JSON, _CSV)
_MAX_PROBLEMS = 5
"""Maximum number of invalid lines that are listed."""
_PROGRESS_EVERY = 10_000
"""Number of records between two updates of the progress."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    from zonewise_scheduler.accounting.run_record import OUTCOMES
    from zonewise_scheduler.accounting.usage_groups import KEYS

    parser.epilog = (
        "JOBS counts the jobs that have ended, and FAILED and EVICTED are shares of their runs. HOURS are requests "
        "times run time: core hours, GiB hours or device hours. WALLTIME USED is the run time of jobs divided by their "
        "declared walltimes. A run counts in the day and month of its end, in UTC. Example: kubectl logs -n zonewise "
        "-l app.kubernetes.io/name=zonewise-controller --tail=-1 | zonewise report -. Status 0: done; 1: some records "
        "are invalid; 2: unusable arguments, or a file cannot be read."
    )
    parser.add_argument("records", metavar="RECORDS", nargs="+", help="files of records or logs of the controller, "
        "directories of such .jsonl files, or - for standard input")  # fmt: skip
    parser.add_argument("--by", metavar="KEYS", type=_names("key", KEYS), default=("user",), help="group by "
        f"{', '.join(KEYS)}, or several of them (default: user)")  # fmt: skip
    parser.add_argument("--jobs", action="store_true", help="list each run of each job instead of groups")
    parser.add_argument("--resource", metavar="NAMES", type=_split, default=(), help="resources whose hours to show, "
        "such as cpu,memory (default: CPU and devices)")  # fmt: skip
    parser.add_argument("--since", metavar="TIME", type=checked(_past), default=None, help="select runs that ended at "
        "or after a date such as 2026-12-01, or in the last 30d")  # fmt: skip
    parser.add_argument("--until", metavar="TIME", type=checked(_past), default=None, help="select runs that ended "
        "before a date, or before the last 7d")  # fmt: skip
    parser.add_argument("-u", "--user", metavar="NAME", action="append", default=[], help="select runs of this user; - "
        "is the unknown one; can be repeated")  # fmt: skip
    parser.add_argument("--state", metavar="STATES", type=_names("state", OUTCOMES), default=(), help="select runs "
        f"with these ends: {', '.join(OUTCOMES)}")  # fmt: skip
    parser.add_argument("--job", metavar="NAMES", type=_split, default=(), help="select runs of jobs with these names")
    parser.add_argument("-n", "--namespace", metavar="NAMES", type=_split, default=(), help="select runs in these "
        "namespaces")  # fmt: skip
    add_output_arguments(parser, _FORMATS)


def run(arguments: Namespace) -> int:
    """Print the report. Raises CommandError."""
    from zonewise_scheduler.accounting.record_lines import RecordReader
    from zonewise_scheduler.accounting.usage_groups import group_usage
    from zonewise_scheduler.client.usage.record_listing import list_records, record_rows
    from zonewise_scheduler.client.usage.usage_listing import list_usage, shown_resources, usage_rows

    reader = RecordReader()
    records = _selected(_read(reader, arguments.records), _selection(arguments))
    if arguments.jobs:
        runs = sorted(records, key=lambda record: record.ended)
        _print(list_records(runs, _notes(reader)), record_rows(runs), arguments)
    else:
        groups = group_usage(records, arguments.by)
        resources = arguments.resource or shown_resources(groups)
        listing = list_usage(groups, arguments.by, resources, _notes(reader))
        _print(listing, usage_rows(listing.document), arguments)
    _print_problems(reader)
    return 1 if reader.problems else 0


COMMAND = Command("report the usage of ended jobs by user, queue or month", add_arguments, run)


def _print(listing: Listing, rows: Iterable[Sequence[str]], arguments: Namespace) -> None:
    if arguments.output != _CSV:
        sys.stdout.write(render_listing(listing, arguments.output, stdout_terminal(arguments.color)))
        return
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    sys.stdout.write(text.getvalue())


def _read(reader: RecordReader, sources: Sequence[str]) -> Iterator[RunRecord]:
    """Yield the records of all sources. Raises CommandError if one cannot be read."""
    from zonewise_scheduler.simulator.inputs.source_files import STANDARD_INPUT as STDIN
    from zonewise_scheduler.simulator.inputs.source_files import InputError, open_source

    for source in sources:
        for file in _files(source):
            try:
                if file == STDIN:
                    yield from reader.read(sys.stdin.buffer, "standard input")
                else:
                    with open_source(file) as lines:
                        yield from reader.read(lines, file)
            except InputError as error:
                raise CommandError(str(error)) from error


def _files(source: str) -> list[str]:
    """Return the files of a source: the .jsonl files of a directory, or the source itself."""
    from pathlib import Path

    path = Path(source)
    if not path.is_dir():
        return [source]
    files = sorted(str(each) for each in path.iterdir() if each.name.endswith((".jsonl", ".jsonl.gz")))
    if not files:
        raise CommandError(f"{source}: contains no .jsonl files")
    return files


def _selected(records: Iterable[RunRecord], selection: RecordSelection) -> Iterator[RunRecord]:
    """Yield the selected records, and show on a terminal how many have been read."""
    shows, number = sys.stderr.isatty(), 0
    for number, record in enumerate(records, 1):
        if shows and number % _PROGRESS_EVERY == 0:
            sys.stderr.write(f"\r{number:,} records")
        if selection.has(record):
            yield record
    if shows and number >= _PROGRESS_EVERY:
        sys.stderr.write("\r\033[K")


def _selection(arguments: Namespace) -> RecordSelection:
    from zonewise_scheduler.accounting.record_selection import RecordSelection

    selection = RecordSelection(
        users=frozenset(arguments.user),
        outcomes=frozenset(arguments.state),
        jobs=frozenset(arguments.job),
        namespaces=frozenset(arguments.namespace),
    )
    if arguments.since is not None:
        selection = selection._replace(since=arguments.since)
    if arguments.until is not None:
        selection = selection._replace(until=arguments.until)
    if selection.since >= selection.until:
        raise CommandError("--since: must be before --until")
    return selection


def _notes(reader: RecordReader) -> list[str]:
    return [f"{reader.duplicates} records are duplicates and do not count."] if reader.duplicates else []


def _print_problems(reader: RecordReader) -> None:
    for problem in reader.problems[:_MAX_PROBLEMS]:
        sys.stderr.write(f"zonewise: {problem}\n")
    more = len(reader.problems) - _MAX_PROBLEMS
    if more > 0:
        sys.stderr.write(f"zonewise: {more} more records are invalid\n")


def _split(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _names(kind: str, known: Iterable[str]):  # noqa: ANN202 -- a type for argparse
    def parse(text: str) -> tuple[str, ...]:
        for name in (names := _split(text)):
            if name not in known:
                raise ValueError(f"{name!r} is not a {kind}: use {', '.join(known)}")
        if not names:
            raise ValueError(f"names no {kind}: use {', '.join(known)}")
        return names

    return checked(parse)


def _past(text: str) -> float:
    """Return the time of a date, of an RFC 3339 time, or of a duration before now, in seconds since 1970."""
    from zonewise_common.k8s.dates import parse_date
    from zonewise_scheduler.quota.api.declared_walltime import parse_walltime

    try:
        return parse_date(f"{text}T00:00:00+00:00" if len(text) == len("2026-12-01") else text)
    except ValueError:
        pass
    try:
        return time.time() - parse_walltime(text)
    except ValueError:
        raise ValueError(f"{text!r} is neither a date such as 2026-12-01 nor a duration such as 30d") from None
