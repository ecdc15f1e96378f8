"""Whatever happens to the files, discovery continues, reports its losses, and invents nothing."""

from __future__ import annotations

import functools
from collections import Counter
from itertools import cycle
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged, Recording
from support.profiles import PROFILE, share
from support.snapshots import files_of, snapshots
from support.trees import server_tree
from zonewise.machine.discover import Scan, Scanner
from zonewise.machine.files import Files, MemoryFiles
from zonewise.objects.machine_json import machine_to_json, render_json

if TYPE_CHECKING:
    from zonewise.machine.model.machine import Machine

SERVER = "generated server"
MACHINES = [SERVER, *snapshots()]
EXAMPLES = {"long": 400, "random": 30}.get(PROFILE, 10)


@functools.cache
def intact(name: str) -> tuple[Files, Scan, tuple[str, ...], tuple[str, ...]]:
    """Return a machine's files, its scan, and the files and directories that the scan read."""
    files = MemoryFiles(server_tree().items()) if name == SERVER else files_of(name)
    recording = Recording(files)
    scan = Scanner(recording).scan()
    return files, scan, tuple(sorted(set(recording.reads))), tuple(sorted(set(recording.listings)))


NO_VALUE = (b"-1\n", b"(null)\n", b"\n")
"""The kernel's own output for "none" or "not known": such a value loses a fact, but is not damage."""


@functools.cache
def intact_facts(name: str) -> Counter[str]:
    """Return the known facts of a machine without damage."""
    return known_facts(machine_to_json(intact(name)[1].machine))


def known_facts(document: dict[str, Any]) -> Counter[str]:
    """Return the number of known facts in a machine's document, by their path without list positions.

    Counters of RDMA ports are excluded: each may exist or not, depending on the hardware.
    """
    counts: Counter[str] = Counter()

    def walk(value: object, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in cast("dict[str, object]", value).items():
                walk(inner, f"{path}.{key}")
        elif isinstance(value, list):
            for inner in cast("list[object]", value):
                walk(inner, f"{path}[]")
        elif value is not None and "counters" not in path:
            counts[path] += 1

    walk({key: value for key, value in document.items() if key != "problems"}, "")
    return counts


PCI_LIST = "proc/bus/pci/devices"
"""A kernel without PCI lacks this file, and on a machine without PCI functions it is empty."""
MAY_BE_ABSENT = frozenset(
    {
        PCI_LIST,
        "proc/hwloc-nofile-info",
        "sys/class/infiniband/qib0/sys_image_guid",
        "sys/class/infiniband/rxe0/fw_ver",
    }
)
"""Files that kernels, drivers or collections of files may lack, or that a tool added: no other file shows that they
existed."""


def is_plausible(path: str, damage: Damage, files: Files) -> bool:
    """Return whether an undamaged machine could look like this, so that unknown facts are not necessarily losses."""
    if damage.kind == "content":
        return damage.content in NO_VALUE or (not damage.content and path == PCI_LIST)
    if damage.kind == "cut" and not is_directory(path, files):
        kept = files.read(path)[: damage.length]
        return kept.endswith(b"\n") or (not kept and path == PCI_LIST)
    return damage.kind == DELETE and (path in MAY_BE_ABSENT or is_directory(path, files))


def is_directory(path: str, files: Files) -> bool:
    """Return whether the path is a directory that lists hardware; absent hardware has no directory either."""
    try:
        files.names(path)
    except OSError:
        return False
    return True


def check(name: str, damages: dict[str, Damage]) -> None:
    """Check everything that must hold despite damage."""
    files, before, _, _ = intact(name)
    scan = Scanner(Damaged(files, damages)).scan()
    machine = scan.machine
    assert [run for run in scan.runs if run.outcome == "failed"] == []
    document = machine_to_json(machine)
    render_json(document).encode()
    assert {zone.id for zone in machine.zones} <= {zone.id for zone in before.machine.zones} | single_zone(machine)
    zone_counts: Counter[int] = Counter(cpu for zone in machine.zones for cpu in zone.cpus)
    assert [cpu for cpu, times in zone_counts.items() if times > 1] == []
    assert all(zone.cpus <= machine.cpus.online for zone in machine.zones)
    lost = intact_facts(name) - known_facts(document)
    if lost and not any(is_plausible(path, damage, files) for path, damage in damages.items()):
        assert set(machine.problems) - set(before.machine.problems), lost


def single_zone(machine: Machine) -> set[int]:
    """Return zone 0 if no node directory is left: a problem reports this, and the zone has every CPU."""
    whole = [zone for zone in machine.zones if zone.id == 0 and zone.cpus == machine.cpus.online]
    return {0} if whole and len(machine.zones) == 1 and machine.problems else set()


@pytest.mark.parametrize("name", MACHINES)
def test_no_damage_stops_discovery_or_goes_unreported(name: str) -> None:
    """Files are deleted, cut, emptied, garbled, looped or denied: no exception, unreported loss or invented zone."""
    _, _, reads, listings = intact(name)

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        derandomize=PROFILE not in {"long", "random"},
    )
    @given(st.dictionaries(st.sampled_from(reads + listings), DAMAGES, min_size=1, max_size=6))
    def damaged(damages: dict[str, Damage]) -> None:
        check(name, damages)

    damaged()


@pytest.mark.long
@pytest.mark.parametrize("name", MACHINES)
def test_much_damage(name: str) -> None:
    """The same property holds for many more examples."""
    test_no_damage_stops_discovery_or_goes_unreported(name)


def test_every_single_file_may_be_missing() -> None:
    """Each single file that discovery reads on a whole server can be missing."""
    for path in intact(SERVER)[2]:
        check(SERVER, {path: Damage(DELETE)})


CONTENTS = (b"", b"\xff\xfe\0\x80\n", b"9" * 60 + b"\n")
"""No content, noise, and a large number."""


def test_every_single_file_may_be_emptied_or_garbled() -> None:
    """Files that discovery reads on a server can have one of the contents, which alternate; by default, every other."""
    for path, content in share(zip(intact(SERVER)[2], cycle(CONTENTS), strict=False), 2):
        check(SERVER, {path: Damage("content", 0, content)})


@pytest.mark.long
@pytest.mark.parametrize("content", CONTENTS)
def test_every_single_file_may_have_any_content(content: bytes) -> None:
    for path in intact(SERVER)[2]:
        check(SERVER, {path: Damage("content", 0, content)})


def test_a_rescan_of_damage_equals_a_first_scan() -> None:
    """A second scan detects damage that occurred after the first one in the same way as a first scan does."""
    files, _, reads, _ = intact(SERVER)
    for path in [path for path in reads if "/node/" in path or path.endswith("/online")]:
        damages: dict[str, Damage] = {}
        scanner = Scanner(Damaged(files, damages))
        scanner.scan()
        damages[path] = Damage("content", 0, b"\xff\n")
        fresh = Scanner(Damaged(files, damages)).scan().machine
        again = scanner.scan().machine
        if again is not fresh and again != fresh:
            # a rescan reads only files that may change on a running machine
            assert not path.endswith(("online", "meminfo", "nr_hugepages")), path
