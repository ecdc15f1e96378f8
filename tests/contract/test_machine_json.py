"""The contract of `zonewise show -o json`, on every captured machine and on a synthetic one.

Every key of the contract is present with a value of its type. Every fact can be explained: it has a source, or an
object that contains it has one.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from support.machines import ALL
from support.snapshots import files_of, snapshots
from support.trees import server_tree
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.objects.explain import facts
from zonewise.objects.machine_json import SCHEMA, machine_to_json, render_json
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.machine import Machine
    from zonewise.machine.model.problem import Source

MADE = "made"
"""The name of the synthetic server; captured machines have the names of their captures."""

MACHINES = [MADE, *snapshots()]


class Cpus:
    """Represents a CPU set: a string in the kernel's list notation."""


class Maybe(NamedTuple):
    """A value of some kind, or null."""

    kind: Any


class Each(NamedTuple):
    """An object whose values are all of one kind."""

    kind: Any


MAYBE_TEXT, MAYBE_NUMBER, MAYBE_CPUS = Maybe(str), Maybe(int), Maybe(Cpus)

CONTRACT: dict[str, Any] = {
    "schema": str,
    "architecture": MAYBE_TEXT,
    "hostname": MAYBE_TEXT,
    "product": MAYBE_TEXT,
    "cpus": {
        "online": Cpus,
        "offline": Cpus,
        "possible": MAYBE_CPUS,
        "isolated": MAYBE_CPUS,
        "allowed": MAYBE_CPUS,
    },
    "packages": [{"id": MAYBE_NUMBER, "cpus": Cpus, "model": MAYBE_TEXT}],
    "dies": [{"id": MAYBE_NUMBER, "package": MAYBE_NUMBER, "cpus": Cpus}],
    "clusters": [{"id": MAYBE_NUMBER, "package": MAYBE_NUMBER, "cpus": Cpus}],
    "cores": [
        {"id": MAYBE_NUMBER, "package": MAYBE_NUMBER, "zone": MAYBE_NUMBER, "cpus": Cpus,
         "kind": ("performance", "efficiency", None)},
    ],
    "caches": [{"level": int, "type": ("Data", "Instruction", "Unified"), "size": MAYBE_NUMBER, "cpus": Cpus}],
    "zones": [
        {"id": int, "cpus": Cpus, "local_cpus": Cpus, "memory": MAYBE_NUMBER, "hugepages": Each(int),
         "distances": Each(int), "kind": ("cpu", "memory", "device"), "initiators": Maybe([int])},
    ],
    "pci": [
        {"address": str, "class": MAYBE_TEXT, "class_full": MAYBE_TEXT, "vendor": MAYBE_TEXT, "device": MAYBE_TEXT,
         "subsystem_vendor": MAYBE_TEXT, "subsystem_device": MAYBE_TEXT, "driver": MAYBE_TEXT, "zone": MAYBE_NUMBER,
         "zone_source": MAYBE_TEXT, "cpus": MAYBE_CPUS, "parent": MAYBE_TEXT, "root": MAYBE_TEXT,
         "link": Maybe({"speed_gts": Maybe(float), "width": MAYBE_NUMBER, "max_speed_gts": Maybe(float),
                        "max_width": MAYBE_NUMBER}),
         "iommu_group": MAYBE_NUMBER, "sriov": Maybe({"total": MAYBE_NUMBER, "enabled": MAYBE_NUMBER})},
    ],
    "gpus": [
        {"address": MAYBE_TEXT, "uuid": MAYBE_TEXT, "vendor": str, "model": MAYBE_TEXT, "memory": MAYBE_NUMBER,
         "zone": MAYBE_NUMBER, "driver": MAYBE_TEXT, "mig": Maybe(dict), "fabric": Maybe(dict), "health": Maybe(dict)},
    ],
    "nics": [
        {"name": str, "address": MAYBE_TEXT, "zone": MAYBE_NUMBER, "driver": MAYBE_TEXT, "speed_mbps": MAYBE_NUMBER,
         "state": MAYBE_TEXT, "mac": MAYBE_TEXT, "link_layer": MAYBE_TEXT, "sriov": Maybe(dict), "rdma": MAYBE_TEXT},
    ],
    "infiniband": [
        {"name": str, "address": MAYBE_TEXT, "zone": MAYBE_NUMBER, "node_guid": MAYBE_TEXT, "firmware": MAYBE_TEXT,
         "board": MAYBE_TEXT,
         "ports": [{"number": int, "state": MAYBE_TEXT, "physical_state": MAYBE_TEXT, "rate_gbps": Maybe(float),
                    "link_layer": MAYBE_TEXT, "lid": MAYBE_NUMBER, "sm_lid": MAYBE_NUMBER, "gids": list,
                    "counters": Each(int)}]},
    ],
    "links": [{"a": str, "b": str, "relation": str}],
    "problems": [{"path": str, "problem": str, "used": MAYBE_TEXT}],
}  # fmt: skip
"""Key -> kind: a type, a tuple of allowed values, an object by its keys, or a list of one kind."""

RELATIONS = ("SAME", "PIX", "PXB", "PHB", "NODE", "SYS", "unknown")


class Explained(NamedTuple):
    """A machine's document, and the sources of its facts."""

    machine: Machine
    document: dict[str, Any]
    sources: dict[str, Source]


@functools.cache
def explained(name: str) -> Explained:
    files = MemoryFiles(server_tree().items()) if name == MADE else files_of(name)
    scan = Scanner(files, explain=True).scan()
    return Explained(scan.machine, machine_to_json(scan.machine), scan.sources)


def breaches(value: Any, kind: Any, place: str) -> Iterator[str]:
    """Yield the places at which a value is not of its kind."""
    if isinstance(kind, Maybe):
        if value is not None:
            yield from breaches(value, kind.kind, place)
    elif isinstance(kind, Each):
        yield from _breaches_of_parts(value, dict.fromkeys(value, kind.kind), place)
    elif isinstance(kind, dict):
        yield from _breaches_of_parts(value, cast("dict[str, Any]", kind), place)
    elif isinstance(kind, list):
        for number, element in enumerate(value):
            yield from breaches(element, kind[0], f"{place}.{number}")
    elif not _fits(value, kind):
        yield f"{place} is {value!r}"


def _breaches_of_parts(value: dict[str, Any], kinds: dict[str, Any], place: str) -> Iterator[str]:
    for name, kind in kinds.items():
        if name in value:
            yield from breaches(value[name], kind, f"{place}.{name}")
        else:
            yield f"{place}.{name} is missing"


def _fits(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return value in kind
    if kind is Cpus:
        return isinstance(value, str) and str(CpuSet.parse_list(value)) == value
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, kind) and (kind is not int or not isinstance(value, bool))


@pytest.mark.parametrize("name", MACHINES)
def test_every_key_with_its_type(name: str) -> None:
    """Each key of the contract is present, and its value is of the contract's kind."""
    document = explained(name).document
    assert list(breaches(document, CONTRACT, "machine")) == []
    assert document["schema"] == SCHEMA


@pytest.mark.parametrize("name", MACHINES)
def test_relations(name: str) -> None:
    """A relation is one of the contract's words, or a number of NVLinks."""
    for link in explained(name).document["links"]:
        assert link["relation"] in RELATIONS or link["relation"].removeprefix("NV").isdecimal()


@pytest.mark.parametrize("name", MACHINES)
def test_addresses_are_whole(name: str) -> None:
    """PCI addresses include their domain; ids are hexadecimal digits without 0x."""
    for function in explained(name).document["pci"]:
        assert function["address"].count(":") == 2
        for field in ("class", "vendor", "device"):
            assert function[field] is None or int(function[field], 16) < 1 << 16
            assert function[field] is None or len(function[field]) == 4


@pytest.mark.parametrize("name", MACHINES)
def test_no_fact_without_a_source(name: str) -> None:
    """Every known fact can be explained."""
    _, document, sources = explained(name)
    known = [fact.path for fact in facts(document, "all") if fact.value not in (None, [], {})]
    assert known
    # a fact without its own source has that of an object that contains it
    left = [path for path in known if not any(".".join(path[:length]) in sources for length in range(1, len(path) + 1))]
    assert left == [], f"{len(left)} of {len(known)} facts have no source"


@pytest.mark.parametrize("name", MACHINES)
def test_no_source_without_a_fact(name: str) -> None:
    """Each source is recorded under the path of a fact, so that the fact leads to it."""
    _, document, sources = explained(name)
    found = facts(document, "all")
    known = {".".join(fact.path[:length]) for fact in found for length in range(1, len(fact.path) + 1)}
    unknown = tuple(".".join(fact.path) + "." for fact in found if fact.value is None)
    # readings of an object that turned out not to exist are recorded below it: a link of width 0 is not a link
    assert [source for source in sources if source not in known and not source.startswith(unknown)] == []


@pytest.mark.parametrize("name", MACHINES)
def test_recording_sources_changes_nothing(name: str) -> None:
    """The machine is the same with and without its sources."""
    files = MemoryFiles(server_tree().items()) if name == MADE else files_of(name)
    assert machine_to_json(Scanner(files).scan().machine) == explained(name).document


@pytest.mark.parametrize("name", MACHINES)
def test_the_text_is_the_document(name: str) -> None:
    """The output can be parsed again, with its sources."""
    machine, document, sources = explained(name)
    assert json.loads(render_json(document)) == document
    with_sources = json.loads(render_json(machine_to_json(machine, sources)))
    assert all(set(source) == {"file", "value", "rule"} for source in with_sources["sources"].values())
    del with_sources["sources"]
    assert with_sources == document


@pytest.mark.parametrize("name", ALL)
def test_synthetic_machines_fulfil_the_contract(name: str) -> None:
    """The synthetic machines of the other tests have values of the contract's kinds as well."""
    assert list(breaches(machine_to_json(ALL[name]()), CONTRACT, "machine")) == []
