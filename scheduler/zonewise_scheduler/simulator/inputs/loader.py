"""Loads any kind of trace, and detects the kind from the contents."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from zonewise_scheduler.simulator.inputs.cluster_objects import (
    build_fleet_from_objects,
    has_nodes,
    is_object,
    read_objects,
)
from zonewise_scheduler.simulator.inputs.documents import parse_documents, read_documents
from zonewise_scheduler.simulator.inputs.fleet_file import is_fleet, parse_short_fleet, read_fleet
from zonewise_scheduler.simulator.inputs.job_file import is_job_file, read_job_file
from zonewise_scheduler.simulator.inputs.kueue_generator import is_generator, read_generator
from zonewise_scheduler.simulator.inputs.mixes import MIXES, build_mix
from zonewise_scheduler.simulator.inputs.record_trace import build_record_scenario, is_records
from zonewise_scheduler.simulator.inputs.source_files import (
    STANDARD_INPUT,
    InputError,
    is_directory,
    open_source,
    source_exists,
    source_name,
)
from zonewise_scheduler.simulator.inputs.swf_scenario import build_swf_scenario, is_swf
from zonewise_scheduler.simulator.pool_log import MAX_PROCESSORS
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.swf import LoggedJobs, SwfLog, load_swf

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from zonewise_scheduler.simulator.inputs.documents import Document, Json
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Arrival

SUPPORTED_SOURCES = (
    "an SWF log, records of runs, a Kueue generator file (`cohorts`), a job file (`jobs`), API objects, "
    f"a directory of these, or a mix ({', '.join(MIXES)})"
)
SUPPORTED_NODES = (
    "NUMBER, NUMBERxCPUS, NUMBERxCPUSxMEMORY (100x64x256Gi), a file of `levels` and `kinds`, or NodeResourceTopology "
    "and Node objects in a file or a directory"
)
_HEAD = 4096
"""Maximum number of bytes from which the kind of a file is detected."""
_MAX_KEYS = 10
"""Maximum number of keys of an unknown object in an error message."""


def load_scenario(
    source: str,
    nodes: str | None = None,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    load: float | None = None,
    exact: bool = False,
    start_delay: float = 0.0,
    whole_nodes: bool = False,
) -> Scenario | SwfLog:
    """Return the contents of a file or directory, or a mix by name; a file precedes a mix with the same name.

    `source` is "-" for standard input. `nodes` is a text as in SUPPORTED_NODES, or None for the nodes of the source or
    the mix. A log becomes an SwfLog if `nodes` is None or a number of processors, and a Scenario otherwise. `seed`
    applies to a mix or a job file. `jobs` is the number of jobs of a mix, or limits any other source to its first jobs.
    `load` applies to a mix. `exact`: all jobs declare their true run times; for an SwfLog, build_tasks() does this.
    `start_delay`: seconds that pods may take to start; with `exact`, walltimes include them.
    `whole_nodes`: pods of a log are as wide as a node.

    Raises InputError with file, field and value for an invalid source.
    """
    _check_numbers(jobs, seed)
    if source == nodes == STANDARD_INPUT:
        raise InputError("--nodes", "standard input is already the trace")
    exists = source_exists(source)
    if source in MIXES and not exists:
        _check_whole_nodes(whole_nodes=whole_nodes)
        fleet = None if nodes is None else load_fleet(nodes)
        scenario = build_mix(source, fleet, jobs=jobs, load=load, seed=seed or 0)
        return _with_true_run_times(scenario, start_delay) if exact else scenario
    if load is not None:
        raise InputError("--load", f"only a mix has a load: {load:g}")
    if not exists:
        raise InputError(source or "''", f"is neither an existing file nor a known name: use {SUPPORTED_SOURCES}")
    contents = _read_source(source, nodes)
    if isinstance(contents, Scenario):
        _check_whole_nodes(whole_nodes=whole_nodes)
        scenario = contents
    elif isinstance(contents, SwfLog):
        scenario = _load_log(contents, Path(source_name(source)).name, nodes, whole_nodes=whole_nodes)
    else:
        _check_whole_nodes(whole_nodes=whole_nodes)
        scenario = _load_documents(contents, source_name(source), nodes, seed)
    scenario = scenario if jobs is None else _limit_jobs(scenario, jobs)
    return _with_true_run_times(scenario, start_delay) if exact and isinstance(scenario, Scenario) else scenario


def load_fleet(text: str) -> Fleet:
    """Return the nodes of a text as in SUPPORTED_NODES. Raises InputError."""
    short = parse_short_fleet(text)
    if short is not None:
        return short
    if not source_exists(text):
        raise InputError(
            f"--nodes {text or repr(text)}", f"is neither an existing file nor a known name: use {SUPPORTED_NODES}"
        )
    fleet = _find_fleet(read_documents(text), text)
    if fleet is None:
        raise InputError(text, f"contains no nodes: use {SUPPORTED_NODES}")
    return fleet


def _check_numbers(jobs: int | None, seed: int | None) -> None:
    if jobs is not None and jobs < 1:
        raise InputError("--jobs", f"not above 0: {jobs}")
    if seed is not None and seed < 0:
        raise InputError("--seed", f"negative: {seed}")


def _check_whole_nodes(*, whole_nodes: bool) -> None:
    """Raise InputError if whole nodes are requested; the source is not a log."""
    if whole_nodes:
        raise InputError("--whole-nodes", "only a log has jobs of this width")


def _read_source(source: str, nodes: str | None) -> SwfLog | Scenario | list[Document]:
    """Return a log, the jobs of records on nodes, or the objects of a file or directory."""
    if is_directory(source):
        return read_documents(source)
    with open_source(source) as file:
        if is_records(file.peek(_HEAD)):
            return _load_records(file, source_name(source), nodes)
        return load_swf(file) if is_swf(source, file.peek(_HEAD)) else parse_documents(file.read(), source_name(source))


def _load_records(lines: Iterable[bytes], source: str, nodes: str | None) -> Scenario:
    if nodes is None:
        raise InputError(source, "records name no nodes: add --nodes")
    return build_record_scenario(lines, load_fleet(nodes), Path(source).name)


def _load_log(log: SwfLog, name: str, nodes: str | None, *, whole_nodes: bool) -> Scenario | SwfLog:
    if nodes is None:
        return log
    if nodes.isascii() and nodes.isdecimal():
        return log._replace(processors=_processors(nodes))
    return build_swf_scenario(log, load_fleet(nodes), name, whole_nodes=whole_nodes)


def _processors(text: str) -> int:
    number = int(text[:20])
    if not 1 <= number <= MAX_PROCESSORS:
        raise InputError("--nodes", f"not between 1 and {MAX_PROCESSORS}: {text:.20}")
    return number


def _load_documents(documents: Sequence[Document], source: str, nodes: str | None, seed: int | None) -> Scenario:
    """Return the scenario in the objects of a file or a directory; one object may describe the nodes."""
    fleet = _find_fleet(documents, source) if nodes is None else load_fleet(nodes)
    jobs_or_nodes = [special for special in documents if not is_fleet(special.content)]
    job_documents = [
        special for special in jobs_or_nodes if is_job_file(special.content) or is_generator(special.content)
    ]
    if not job_documents:
        _check_objects(documents, jobs_or_nodes, source)
        return read_objects(jobs_or_nodes, source, fleet)
    special = job_documents[0]
    extra = [document for document in jobs_or_nodes if document is not special and not has_nodes([document])]
    if extra:
        where = ", ".join(dict.fromkeys(document.where for document in (special, *extra)))
        raise InputError(source, f"jobs of one source can be combined only with nodes: {where}")
    if is_generator(special.content):
        if fleet is not None:
            raise InputError(special.where, "nodes: a generator file describes its nodes itself")
        return read_generator(special.content, special.where)
    return read_job_file(special.content, special.where, _job_file_fleet(special, fleet), seed)


def _check_objects(documents: Sequence[Document], jobs_or_nodes: Sequence[Document], where: str) -> None:
    """Raise InputError if an object is neither an API object nor a fleet, or if there are no jobs."""
    unknown = next((document for document in jobs_or_nodes if not is_object(document.content)), None)
    if unknown is not None:
        keys = ", ".join(f"{key:.40}" for key in list(unknown.content)[:_MAX_KEYS]) or "none"
        raise InputError(unknown.where, f"its fields are {keys}; use {SUPPORTED_SOURCES}")
    if not jobs_or_nodes:
        problem = "it describes nodes: use it with --nodes" if documents else "it is empty"
        raise InputError(where, f"{problem}; can be {SUPPORTED_SOURCES}")


def _job_file_fleet(document: Document, fleet: Fleet | None) -> Fleet:
    """Return the nodes of a job file: the fleet from the command line, or otherwise its own."""
    nodes: object = document.content.get("nodes")
    if fleet is not None:
        return fleet
    if isinstance(nodes, dict):
        return read_fleet(cast("Json", nodes), f"{document.where}: nodes")
    short = parse_short_fleet(str(nodes), f"{document.where}: nodes") if isinstance(nodes, str | int) else None
    if short is None:
        raise InputError(
            document.where, f"nodes: {'there are none' if nodes is None else repr(nodes)[:80]}; see --nodes"
        )
    return short


def _find_fleet(documents: Sequence[Document], where: str) -> Fleet | None:
    """Return the nodes among documents; None if there are none."""
    described_fleets = [document for document in documents if is_fleet(document.content)]
    if len(described_fleets) > 1:
        raise InputError(
            where, f"nodes are described more than once: {', '.join(document.where for document in described_fleets)}"
        )
    if described_fleets:
        return read_fleet(described_fleets[0].content, described_fleets[0].where)
    return build_fleet_from_objects(documents) if has_nodes(documents) else None


def _limit_jobs(source: Scenario | SwfLog, jobs: int) -> Scenario | SwfLog:
    """Return a source with only its first jobs."""
    if isinstance(source, Scenario):
        return source._replace(arrivals=source.arrivals[:jobs])
    return source._replace(jobs=LoggedJobs(source.jobs[row] for row in source.jobs.by_submission()[:jobs]))


def _with_true_run_times(scenario: Scenario, start_delay: float) -> Scenario:
    """Return a scenario with true run times as walltimes, including the time in which the pods start."""
    return scenario._replace(arrivals=[_with_true_run_time(arrival, start_delay) for arrival in scenario.arrivals])


def _with_true_run_time(arrival: Arrival, start_delay: float) -> Arrival:
    """Return a job with its true run time as walltime; a job of no length declares one second, as in a log."""
    return arrival._replace(workload=replace(arrival.workload, walltime=(arrival.run_time or 1.0) + start_delay))
