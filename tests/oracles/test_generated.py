"""Machines of any shape, generated as files, compared with lstopo's output for the same files."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.lstopo import lstopo
from support.trees import Contents, Shape, machine_tree, server_tree
from support.views import cache_tuples, core_sets, package_sets, zone_sizes
from zonewise.machine.archive import open_root
from zonewise.machine.discover import discover
from zonewise.machine.files import MemoryFiles

NEEDS_LSTOPO = pytest.mark.skipif(shutil.which("lstopo") is None, reason="lstopo is not installed")


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Draw a machine with up to 128 CPUs, of which some may be offline, but at least one of every core is online."""
    l3_cores, l3_groups = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    shape = Shape(
        packages=draw(st.integers(1, 2)),
        zones=draw(st.integers(1, 2)),
        cores=l3_cores * l3_groups,
        threads=draw(st.sampled_from([1, 2, 4])),
        l3_cores=l3_cores,
        adjacent=draw(st.booleans()),
    )
    firsts = {shape.of_core(core).first() for core in range(shape.all_cores)}
    siblings = [cpu for cpu in shape.all_cpus if cpu not in firsts]
    offline = draw(st.lists(st.sampled_from(siblings), unique=True, max_size=4)) if siblings else []
    return shape._replace(offline=tuple(sorted(offline)))


def write(tree: Contents, directory: Path) -> None:
    """Write a tree to a disk."""
    for path, content in tree.items():
        target = directory / path
        (target if content is None else target.parent).mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            target.symlink_to(content)
        elif content is not None:
            target.write_bytes(content)


@NEEDS_LSTOPO
@settings(max_examples=15, deadline=None)
@given(shapes())
def test_any_shape_equals_lstopo(shape: Shape) -> None:
    """Packages, cores, caches and zones of a machine of any shape are those of lstopo."""
    with tempfile.TemporaryDirectory() as name:
        write(machine_tree(shape), Path(name))
        expected, machine = lstopo(name), discover(open_root(name))
    assert machine.problems == ()
    assert package_sets(machine) == expected.packages
    assert core_sets(machine) == expected.cores
    assert cache_tuples(machine) == expected.caches
    assert zone_sizes(machine) == expected.zones


@NEEDS_LSTOPO
def test_the_server_equals_lstopo(tmp_path: Path) -> None:
    """The generated server with its devices equals lstopo's output, including PCI functions."""
    write(server_tree(), tmp_path)
    expected, machine = lstopo(str(tmp_path)), discover(open_root(str(tmp_path)))
    assert zone_sizes(machine) == expected.zones
    assert {each.address for each in machine.pci if each.pci_class != "0604"} == expected.functions


@given(shapes())
@settings(max_examples=40, deadline=None)
def test_any_shape_equals_its_definition(shape: Shape) -> None:
    """Without any tool: the discovered machine equals its definition."""
    machine = discover(MemoryFiles(machine_tree(shape).items()))
    assert machine.problems == ()
    assert machine.cpus.online == shape.online
    assert machine.cpus.offline == shape.all_cpus - shape.online
    assert package_sets(machine) == {str(shape.of_package(package)) for package in range(shape.packages)}
    assert core_sets(machine) == {str(shape.of_core(core)) for core in range(shape.all_cores)}
    assert {zone.id: zone.cpus for zone in machine.zones} == {
        zone: shape.of_zone(zone) for zone in range(shape.all_zones)
    }
