"""The machine as JSON: every field is included, the output is valid for any content, and equal for equal machines."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machines import ALL, gpu_server, hybrid, small_vm, tiered_memory
from zonewise.machine.model.host import Kernel
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.problem import Problem, Source
from zonewise.objects.machine_json import SCHEMA, machine_to_json, render_json
from zonewise_common.k8s.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Callable

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=20)
"""Any Python string, including lone surrogates, which represent file names that are not UTF-8."""


def test_schema_comes_first() -> None:
    """The first key identifies the document."""
    assert next(iter(machine_to_json(Machine()))) == "schema"
    assert machine_to_json(Machine())["schema"] == SCHEMA == "zonewise.dev/machine/v1"


@pytest.mark.parametrize("name", ALL)
def test_every_field_has_its_own_name(name: str) -> None:
    """The keys are exactly the fields of Machine."""
    document = machine_to_json(ALL[name]())
    assert list(document) == ["schema", *Machine._fields]


@pytest.mark.parametrize("name", ALL)
def test_round_trip(name: str) -> None:
    """The parsed text equals the rendered document."""
    document = machine_to_json(ALL[name]())
    assert json.loads(render_json(document)) == document


@pytest.mark.parametrize("name", ALL)
def test_the_same_machine_gives_the_same_bytes(name: str) -> None:
    """Two equal machines that were built separately give equal text."""
    build: Callable[[], Machine] = ALL[name]
    assert render_json(machine_to_json(build())) == render_json(machine_to_json(build()))


def test_sets_of_cpus_are_the_kernels_lists() -> None:
    """A CPU set is a list string; an empty one is an empty string, an unknown one is null."""
    machine = Machine()._replace(cpus=Machine().cpus._replace(online=CpuSet((0, 1, 2, 8))))
    assert machine_to_json(machine)["cpus"]["online"] == "0-2,8"
    assert machine_to_json(machine)["cpus"]["offline"] == ""
    assert machine_to_json(machine)["cpus"]["isolated"] is None


def test_unknown_is_null_and_present() -> None:
    """A fact that could not be read is null, neither omitted nor zero."""
    zone = small_vm().zones[0]._replace(memory=None)
    obj = machine_to_json(small_vm()._replace(zones=(zone,)))["zones"][0]
    assert "memory" in obj
    assert obj["memory"] is None


def test_tuples_are_lists_and_maps_are_objects() -> None:
    """A zone's initiators are a list; its huge page pools are an object."""
    zones = machine_to_json(tiered_memory())["zones"]
    assert zones[2]["initiators"] == [0]
    assert zones[0]["hugepages"] == {"2Mi": 1024, "1Gi": 0}
    assert zones[0]["initiators"] is None


def test_class_of_a_pci_function() -> None:
    """The only field whose name is reserved in Python has its proper name in JSON."""
    functions = machine_to_json(gpu_server())["pci"]
    assert all("class" in function and "pci_class" not in function for function in functions)
    assert {"0302", "0207", "0604"} <= {function["class"] for function in functions}


def test_numbers_that_json_lacks_are_unknown() -> None:
    """Infinity and NaN, which no JSON parser accepts, are unknown."""
    kind = hybrid().core_kinds[0]
    kinds = tuple(kind._replace(max_mhz=value) for value in (math.inf, math.nan))
    document = machine_to_json(Machine(core_kinds=kinds))
    assert [kind["max_mhz"] for kind in document["core_kinds"]] == [None, None]
    json.loads(render_json(document))


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_valid_for_any_text(name: str, key: str, parameter: str) -> None:
    """For any text in a damaged machine, the output is ASCII, ends with a newline, and is valid for strict parsers."""
    machine = small_vm()._replace(
        hostname=name,
        kernel=Kernel("6", command_line=(parameter,), config={key: name}),
        problems=(Problem(f"/{name}", parameter),),
    )
    text = render_json(machine_to_json(machine, {key: Source(name, parameter, "rule")}))
    assert text.isascii()
    assert text.endswith("}\n")
    # parsers in Go and Rust reject a lone surrogate, even as an escape; Python's encoder detects it
    json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_valid_text_is_unchanged(name: str) -> None:
    """Names in any script survive a round trip."""
    assert json.loads(render_json(machine_to_json(Machine(hostname=name))))["hostname"] == name


def test_one_line_for_each_element() -> None:
    """For text tools, each list element and each top-level key of an object is one line."""
    machine = gpu_server()
    lines = render_json(machine_to_json(machine)).splitlines()
    assert sum(line.startswith('  {"address": "') for line in lines) == len(machine.pci) + len(machine.gpus)
    assert ' "hostname": "gpu-7",' in lines
    assert all(line.startswith(("{", "}", " ")) for line in lines)


def test_empty_lists_remain_on_their_line() -> None:
    """An empty list remains on its line."""
    assert ' "zones": [],' in render_json(machine_to_json(Machine())).splitlines()


def test_sources_only_on_request() -> None:
    """The key `sources` appears on request, with file, value and rule."""
    source = Source("/sys/devices/system/node/node0/meminfo", "MemTotal: 1 kB", "MemTotal x 1024")
    assert "sources" not in machine_to_json(small_vm())
    sources: dict[str, Any] = machine_to_json(small_vm(), {"zones.0.memory": source})["sources"]
    assert sources == {"zones.0.memory": {"file": source.file, "value": source.value, "rule": source.rule}}
