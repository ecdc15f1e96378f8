"""Explanation of a fact: its lookup by path, and its source."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.machines import ALL, gpu_server, grace_blackwell, small_vm, tiered_memory
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.problem import Problem, Source
from zonewise.objects.explain import IDENTIFIED_BY, UnknownFact, explain, facts, select_sources
from zonewise.objects.machine_json import machine_to_json

MEMINFO = Source("/sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 65536 kB", "MemTotal in KiB, times 1024")
PARENT = Source("/sys/bus/pci/devices", "0000:19:00.0", "each entry is a function")


def test_a_fact_of_its_own() -> None:
    """Value, file, raw value and rule are printed on one line each."""
    assert explain(machine_to_json(tiered_memory()), {"zones.1.memory": MEMINFO}, "zones.1.memory") == (
        "zones.1.memory: 274877906944\n"
        "  file   /sys/devices/system/node/node1/meminfo\n"
        "  value  Node 1 MemTotal: 65536 kB\n"
        "  rule   MemTotal in KiB, times 1024\n"
    )


def test_the_content_of_a_file_cannot_control_the_terminal() -> None:
    """A capture may be untrusted: control characters are escaped, and a line remains one line."""
    source = Source("/sys/a\x1bb", "one\x1b[2J\ntwo\u202e", "as it is")
    text = explain(machine_to_json(tiered_memory()), {"zones.1.memory": source}, "zones.1.memory")
    assert "  file   /sys/a^[b\n  value  one^[[2J\n         two?\n" in text


def test_a_fact_has_its_nearest_parents_source() -> None:
    """A fact without its own source has that of its object, with the object's name."""
    text = explain(
        machine_to_json(gpu_server()), {"gpus": MEMINFO, "gpus.0000:19:00.0": PARENT}, "gpus.0000:19:00.0.zone"
    )
    assert "gpus.0000:19:00.0.zone: 0\n" in text
    assert "rule   each entry is a function (source of gpus.0000:19:00.0)" in text


def test_a_fact_without_a_source() -> None:
    """If no source was recorded, none is invented."""
    assert explain(machine_to_json(small_vm()), {}, "hostname") == 'hostname: "vm-1"\n  no source is recorded\n'


def test_an_unknown_fact() -> None:
    """Null is not printed as a value."""
    text = explain(machine_to_json(small_vm()), {"nics.lo": PARENT}, "nics.lo.zone")
    assert text.startswith("nics.lo.zone: unknown\n")


def test_a_value_of_several_lines_is_indented() -> None:
    """A file with several lines remains readable below its label."""
    source = MEMINFO._replace(value="one\ntwo")
    assert "  value  one\n         two\n" in explain(machine_to_json(small_vm()), {"memory": source}, "memory")


def test_a_whole_object() -> None:
    """A path to an object prints each of its facts, in the order of the document."""
    text = explain(machine_to_json(tiered_memory()), {"zones.0": MEMINFO}, "zones.0")
    named = [line.partition(":")[0] for line in text.splitlines() if not line.startswith(" ")]
    assert named[:4] == ["zones.0.id", "zones.0.cpus", "zones.0.local_cpus", "zones.0.memory"]
    assert "zones.0.distances.4" in named
    assert "zones.0.side_caches.0.size" in named


def test_addresses_hold_dots_and_colons() -> None:
    """The longest matching name is used, so an address is one element of the path."""
    matching = facts(machine_to_json(gpu_server()), "pci.0000:19:00.0.link.max_width")
    assert [(fact.path, fact.value) for fact in matching] == [(("pci", "0000:19:00.0", "link", "max_width"), 16)]


def test_devices_are_addressed_by_name() -> None:
    """NICs, RDMA devices and disks are addressed by the kernel's names, ports by their index."""
    document = machine_to_json(gpu_server())
    assert facts(document, "infiniband.mlx5_3.ports.0.rate_gbps")[0].value == 400.0
    assert facts(document, "nics.eno1np0.speed_mbps")[0].value == 25000
    assert facts(document, "block_devices.nvme2n1.transport")[0].value == "nvme"


def test_a_name_with_a_dot() -> None:
    """A VLAN's name is found although its first part is also a name."""
    plain = small_vm().nics[0]
    machine = small_vm()._replace(nics=(plain, plain._replace(name="ens3.100", mtu=1400)))
    assert facts(machine_to_json(machine), "nics.ens3.100.mtu")[0].value == 1400


def test_a_number_below_zones_is_an_id() -> None:
    """GB200 has zones 0, 1, 2, 10 and 18: the number in the path is an id, never an index into the list."""
    machine = grace_blackwell()._replace(zones=tuple(z for z in grace_blackwell().zones if z.memory))
    document = machine_to_json(machine)
    assert facts(document, "zones.18.device")[0].value == "0018:01:00.0"
    with pytest.raises(UnknownFact, match=r"zones\.3"):
        facts(document, "zones.3")


def test_an_index_is_accepted_if_names_are_not_numbers() -> None:
    """gpus.1 is the second GPU, which is listed under its own name."""
    assert facts(machine_to_json(gpu_server()), "gpus.1.model")[0].path == ("gpus", "0000:2a:00.0", "model")


def test_elements_without_names_are_addressed_by_index() -> None:
    """The ids of cores, caches and packages are not unique, so they are addressed by index."""
    matching = facts(machine_to_json(gpu_server()), "cores.57.package")
    assert [(fact.path, fact.value) for fact in matching] == [(("cores", "57", "package"), 1)]


def test_a_device_without_an_address_is_addressed_by_index() -> None:
    """A platform GPU has no PCI address but still has a path."""
    gpu = gpu_server().gpus[0]._replace(address=None)
    assert facts(machine_to_json(Machine(gpus=(gpu,))), "gpus.0.vendor")[0].value == "nvidia"


@pytest.mark.parametrize(
    ("path", "possible"),
    [
        ("zone", "zones"),
        ("zones.9", "0, 1, 2, 3, 4"),
        ("zones.0.size", "local_cpus, memory"),
        ("zones.0.memory.bytes", "nothing is below"),
        ("", "hostname"),
        ("schema", "hostname"),
    ],
)
def test_an_unknown_path_lists_the_names(path: str, possible: str) -> None:
    """The error lists the names at that position."""
    with pytest.raises(UnknownFact, match=possible):
        facts(machine_to_json(tiered_memory()), path)


def test_the_list_of_names_is_short() -> None:
    """Some of hundreds of PCI functions are named, with the number of the others."""
    with pytest.raises(UnknownFact, match=r"0000:00:0c\.0, .* and \d+ more$"):
        facts(machine_to_json(gpu_server()), "pci.0000:ff:00.0")


def test_problems_are_not_facts() -> None:
    """A problem of the source is not a fact of the machine."""
    machine = small_vm()._replace(problems=(Problem("/sys/x", "is empty"),))
    assert not [fact for fact in facts(machine_to_json(machine), "all") if fact.path[0] == "problems"]


@pytest.mark.parametrize("name", ALL)
def test_every_fact_has_its_own_path(name: str) -> None:
    """The path under which a fact is listed leads to this fact."""
    document = machine_to_json(ALL[name]())
    everything = facts(document, "all")
    for fact in everything[:: max(1, len(everything) // 200)]:
        assert facts(document, ".".join(fact.path)) == [fact]


@given(st.text(max_size=30))
def test_any_path_is_explained_or_rejected(path: str) -> None:
    """Every path gives facts, or an error that lists the names."""
    with contextlib.suppress(UnknownFact):
        assert facts(machine_to_json(small_vm()), path)


def test_sources_of_a_path() -> None:
    """The JSON output has the sources of the facts at and below the path: their own, and the nearest parent's."""
    sources = {"zones": PARENT, "zones.0": PARENT, "zones.0.memory": MEMINFO, "zones.1.memory": MEMINFO}
    document = machine_to_json(tiered_memory())
    assert list(select_sources(document, sources, "zones.0.memory")) == ["zones.0.memory"]
    assert list(select_sources(document, sources, "zones.0")) == ["zones.0", "zones.0.memory"]
    assert select_sources(document, sources, "all") == sources


def test_lists_with_names_exist() -> None:
    """The lists whose elements have names are fields of Machine."""
    assert set(IDENTIFIED_BY) <= set(Machine._fields)
