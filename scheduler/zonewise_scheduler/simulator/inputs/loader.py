"""Whatever can be simulated, told by what is in it."""

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
from zonewise_scheduler.simulator.inputs.errors import InputError
from zonewise_scheduler.simulator.inputs.fleet_file import is_fleet, parse_short_fleet, read_fleet
from zonewise_scheduler.simulator.inputs.job_file import is_job_file, read_job_file
from zonewise_scheduler.simulator.inputs.kueue_generator import is_generator, read_generator
from zonewise_scheduler.simulator.inputs.mixes import MIXES, build_mix
from zonewise_scheduler.simulator.inputs.source_files import is_directory, open_source, source_exists, source_name
from zonewise_scheduler.simulator.inputs.swf_scenario import build_swf_scenario, is_swf
from zonewise_scheduler.simulator.pool_tasks import MAX_PROCESSORS
from zonewise_scheduler.simulator.scenario import Scenario
from zonewise_scheduler.simulator.swf import SwfLog, load_swf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.simulator.inputs.documents import Document, Json
    from zonewise_scheduler.simulator.inputs.node_fleet import Fleet
    from zonewise_scheduler.simulator.scenario import Arrival

SUPPORTED_SOURCES = (
    "an SWF log, a generator file of Kueue's (`cohorts`), a job file (`jobs`), objects of Kubernetes and Kueue in a "
    f"file or a directory, or a mix ({', '.join(MIXES)})"
)
SUPPORTED_NODES = (
    "NUMBER, NUMBERxCPUS, NUMBERxCPUSxMEMORY (100x64x256Gi), a file of `levels` and `kinds`, or NodeResourceTopology "
    "and Node objects in a file or a directory"
)
_BEGIN = 4096
"""Bytes of a file that tell what it is, at most."""
_KEYS = 10
"""Of an object that is none we know, to be shown."""


def load_scenario(
    source: str,
    nodes: str | None = None,
    *,
    seed: int | None = None,
    jobs: int | None = None,
    load: float | None = None,
    exact: bool = False,
    whole_nodes: bool = False,
) -> Scenario | SwfLog:
    """Return what is in a file or directory, or a mix by name; a file comes before a mix of its name.

    `source` is "-" for standard input. `nodes` is a text as NODES_UNDERSTOOD says; None: those of the source, or of the
    mix. A log is a Log where that is None or a number, of processors, and else a Scenario. `seed`: of a mix or a job
    file; `jobs`: so many of a mix, the first so many of anything else; `load`: of a mix alone; `exact`: all declare
    just the run time that they have, which of a Log is tasks_of()'s to do; `whole_nodes`: pods of a log are as wide as
    a node.

    Raises InputError, naming file, field and value, where nothing can be made of them.
    """
    _check(jobs, seed)
    there = source_exists(source)
    if source in MIXES and not there:
        fleet = None if nodes is None else load_fleet(nodes)
        found = build_mix(source, fleet, jobs=jobs, load=load, seed=seed or 0)
        return _exact(found) if exact else found
    if load is not None:
        raise InputError("--load", f"only a mix has one: {load:g}")
    if not there:
        raise InputError(source or "''", f"neither there nor known: can be {SUPPORTED_SOURCES}")
    read = _read(source)
    if isinstance(read, SwfLog):
        found = _of_log(read, Path(source_name(source)).name, nodes, whole_nodes=whole_nodes)
    else:
        found = _of_documents(read, source_name(source), nodes, seed)
    found = found if jobs is None else _first(found, jobs)
    return _exact(found) if exact and isinstance(found, Scenario) else found


def load_fleet(text: str) -> Fleet:
    """Return the nodes of a text as NODES_UNDERSTOOD says; raise InputError."""
    found = parse_short_fleet(text)
    if found is not None:
        return found
    if not source_exists(text):
        raise InputError(f"--nodes {text or repr(text)}", f"neither there nor known: can be {SUPPORTED_NODES}")
    fleet = _fleet_in(read_documents(text), text)
    if fleet is None:
        raise InputError(text, f"nothing of nodes: can be {SUPPORTED_NODES}")
    return fleet


def _check(jobs: int | None, seed: int | None) -> None:
    if jobs is not None and jobs < 1:
        raise InputError("--jobs", f"not above 0: {jobs}")
    if seed is not None and seed < 0:
        raise InputError("--seed", f"negative: {seed}")


def _read(source: str) -> SwfLog | list[Document]:
    """Return a log, or else the objects of a file or directory."""
    if is_directory(source):
        return read_documents(source)
    with open_source(source) as file:
        return (
            load_swf(file) if is_swf(source, file.peek(_BEGIN)) else parse_documents(file.read(), source_name(source))
        )


def _of_log(log: SwfLog, name: str, nodes: str | None, *, whole_nodes: bool) -> Scenario | SwfLog:
    if nodes is None:
        return log
    if nodes.isascii() and nodes.isdecimal():
        return log._replace(processors=_processors(nodes))
    return build_swf_scenario(log, load_fleet(nodes), name, whole_nodes=whole_nodes)


def _processors(text: str) -> int:
    found = int(text[:20])
    if not 1 <= found <= MAX_PROCESSORS:
        raise InputError("--nodes", f"not from 1 to {MAX_PROCESSORS}: {text:.20}")
    return found


def _of_documents(documents: Sequence[Document], source: str, nodes: str | None, seed: int | None) -> Scenario:
    """Return what the objects of a file or a directory make together; one of them may describe the nodes."""
    fleet = _fleet_in(documents, source) if nodes is None else load_fleet(nodes)
    sources = [one for one in documents if not is_fleet(one.content)]
    special = [one for one in sources if is_job_file(one.content) or is_generator(one.content)]
    if not special:
        _check_objects(documents, sources, source)
        return read_objects(sources, source, fleet)
    one = special[0]
    others = [each for each in sources if each is not one and not has_nodes([each])]
    if others:
        where = ", ".join(dict.fromkeys(each.where for each in (one, *others)))
        raise InputError(source, f"beside jobs of one source there can be nodes, and nothing else: {where}")
    if is_generator(one.content):
        if fleet is not None:
            raise InputError(one.where, "nodes: a generator file says itself which there are")
        return read_generator(one.content, one.where)
    return read_job_file(one.content, one.where, _fleet_for(one, fleet), seed)


def _check_objects(documents: Sequence[Document], sources: Sequence[Document], where: str) -> None:
    """Raise InputError where there is anything but objects of an API, and nodes that are described, or no jobs."""
    strange = next((one for one in sources if not is_object(one.content)), None)
    if strange is not None:
        keys = ", ".join(f"{key:.40}" for key in list(strange.content)[:_KEYS]) or "none"
        raise InputError(strange.where, f"its fields are {keys}; can be {SUPPORTED_SOURCES}")
    if not sources:
        what = "it describes nodes, which belong to --nodes" if documents else "it is empty"
        raise InputError(where, f"{what}; can be {SUPPORTED_SOURCES}")


def _fleet_for(one: Document, fleet: Fleet | None) -> Fleet:
    """Return what a job file's jobs run on: the fleet given, or its own."""
    own: object = one.content.get("nodes")
    if fleet is not None:
        return fleet
    if isinstance(own, dict):
        return read_fleet(cast("Json", own), f"{one.where}: nodes")
    found = parse_short_fleet(str(own), f"{one.where}: nodes") if isinstance(own, str | int) else None
    if found is None:
        raise InputError(one.where, f"nodes: {'there are none' if own is None else repr(own)[:80]}; see --nodes")
    return found


def _fleet_in(documents: Sequence[Document], where: str) -> Fleet | None:
    """Return the nodes among documents; None: there are none."""
    described = [one for one in documents if is_fleet(one.content)]
    if len(described) > 1:
        raise InputError(where, f"nodes are described more than once: {', '.join(one.where for one in described)}")
    if described:
        return read_fleet(described[0].content, described[0].where)
    return build_fleet_from_objects(documents) if has_nodes(documents) else None


def _first(found: Scenario | SwfLog, jobs: int) -> Scenario | SwfLog:
    """Return it with the first so many jobs."""
    if isinstance(found, Scenario):
        return found._replace(arrivals=found.arrivals[:jobs])
    return found._replace(jobs=sorted(found.jobs, key=lambda one: (one.submit_time, one.job_number))[:jobs])


def _exact(found: Scenario) -> Scenario:
    """Return it with true run times for declared ones; a job that takes no time declares a second, as in a log."""
    return found._replace(arrivals=[_declared(one) for one in found.arrivals])


def _declared(one: Arrival) -> Arrival:
    return one._replace(workload=replace(one.workload, walltime=one.run_time or 1.0))
