"""Features that /proc/cpuinfo hides, from the bits of CPUID, under the conditions of klauspost/cpuid."""

from __future__ import annotations

import pytest

from zonewise.machine.model.cpu import CpuidLeaf, Model
from zonewise.machine.model.machine import Machine
from zonewise.objects.cpuid import cpuid_features
from zonewise.objects.cpuid_bits import avx10_version, hidden_features
from zonewise.objects.features import node_features
from zonewise.objects.labels import machine_to_labels

ZEN_5 = (
    CpuidLeaf(0x7, 0, 0x1, 0xF1BF07AB, 0x405FC6, 0x10),
    CpuidLeaf(0x80000008, 0, 0x303030, 0x50020005, 0x7001, 0),
    CpuidLeaf(0x8000001A, 0, 0x6, 0, 0, 0),
    CpuidLeaf(0x80000021, 0, 0x204, 0, 0x86, 0),
)
"""A guest on an AMD processor of family 1Ah, on which nfd-worker was also run."""


XEON_6 = (
    CpuidLeaf(0x7, 0, 0x2, 0xF1BF2FFB, 0x1A415F46, 0x23C14010),
    CpuidLeaf(0x7, 1, 0x1C30, 0, 0, 0x84000),
    CpuidLeaf(0x24, 0, 0, 0x70001, 0, 0),
)
"""A guest on an Intel processor, on which nfd-worker was also run."""


COUNTERS = ["INSTRUCTIONS", "CYCLES", "REFCYCLES", "TOPDOWN_SLOTS"]


def hidden(model: Model) -> set[str]:
    return set(hidden_features(model))


def test_a_machine_on_which_nfd_ran() -> None:
    """nfd-worker has these seven flags there, which /proc/cpuinfo lacks."""
    model = Model("AuthenticAMD", family="26", model="17", leaves=ZEN_5)
    names = {"CETSS", "FP256", "MOVU", "PSFD", "STIBP_ALWAYSON", "TSA_L1_NO", "TSA_SQ_NO"}
    assert hidden(model) == names
    assert names <= set(cpuid_features("x86_64", model))
    assert cpuid_features("aarch64", model) == []


def test_an_intel_machine_on_which_nfd_ran() -> None:
    """nfd-worker has these eight flags there, which Linux 6.18 does not print, and an attribute."""
    model = Model("GenuineIntel", flags=("avx512f",), leaves=XEON_6)
    assert hidden(model) == {
        *("AVX10", "AVX10_128", "AVX10_256", "AVX10_512", "CMPSB_SCADBS_SHORT", "MOVSB_ZL", "PREFETCHI", "STOSB_SHORT")
    }
    assert avx10_version(model) == 1


@pytest.mark.parametrize(
    ("leaf", "model", "names"),
    [
        (CpuidLeaf(0x7, 2, 0, 0, 0, 0b110111), Model(), {"PSFD", "IDPRED_CTRL", "RRSBA_CTRL", "BHI_CTRL", "MCDT_NO"}),
        (CpuidLeaf(0x8000001B, 0, 0b11, 0, 0, 0), Model(flags=("ibs",)), {"IBSFFV", "IBSFETCHSAM"}),
        (CpuidLeaf(0x8000001B, 0, 0b11, 0, 0, 0), Model(), set[str]()),
        (CpuidLeaf(0x24, 0, 0, 7 << 16, 0, 0), Model(), set[str]()),
        (CpuidLeaf(0xA, 0, 5, 0, 0, 3), Model(), {f"PMU_FIXEDCOUNTER_{name}" for name in COUNTERS[:3]}),
        (CpuidLeaf(0xA, 0, 2, 0, 0, 4), Model(), {f"PMU_FIXEDCOUNTER_{name}" for name in COUNTERS}),
        (CpuidLeaf(0xA, 0, 2, 0, 0, 2), Model(), set[str]()),
        (CpuidLeaf(0xA, 0, 1, 0, 0, 4), Model(), set[str]()),
        (CpuidLeaf(0xA, 0, 1, 0b1101, 0, 0), Model(), {"PMU_FIXEDCOUNTER_CYCLES"}),
        (CpuidLeaf(0xA, 0, 0, 0b1101, 0, 4), Model(), set[str]()),
        (CpuidLeaf(0x8000001F, 0, 1 << 10, 0, 0, 0), Model("AuthenticAMD"), {"SME_COHERENT"}),
        (CpuidLeaf(0x8000001F, 0, 1 << 10, 0, 0, 0), Model("GenuineIntel"), set[str]()),
        (CpuidLeaf(0x7, 1, 1 << 27 | 1 << 21, 0, 0, 0), Model(flags=("avx512f",)), {"MSRLIST", "AMXFP16"}),
        (CpuidLeaf(0x7, 1, 1 << 27 | 1 << 21, 0, 0, 0), Model(), set[str]()),
    ],
)
def test_bits(leaf: CpuidLeaf, model: Model, names: set[str]) -> None:
    """Each bit has a condition: a vendor, or a feature in /proc/cpuinfo."""
    assert hidden(model._replace(leaves=(leaf,))) == names


def test_the_version_of_avx10() -> None:
    """The version is an attribute beside the flags, and a label."""
    feature, leaf = CpuidLeaf(0x7, 1, 0, 0, 0, 1 << 19), CpuidLeaf(0x24, 0, 0, 0x70002, 0, 0)
    model = Model(leaves=(feature, leaf))
    assert hidden(model) == {"AVX10", "AVX10_128", "AVX10_256", "AVX10_512"}
    assert avx10_version(model) == 2
    assert avx10_version(Model(leaves=(leaf,))) is None
    assert avx10_version(Model(leaves=(feature,))) is None
    machine = Machine(architecture="x86_64", model=model)
    assert node_features(machine).attributes["cpu.cpuid"] == {"AVX10_VERSION": "2"}
    assert machine_to_labels(machine)["feature.node.kubernetes.io/cpu-cpuid.AVX10_VERSION"] == "2"
    assert "cpu.cpuid" not in node_features(Machine(architecture="x86_64")).attributes


@pytest.mark.parametrize(
    ("family", "number", "immune"),
    [("23", "49", True), ("25", "1", False), ("26", "17", True), ("26", "80", False), ("26", "96", True),
     ("26", "128", False), ("27", "0", False), ("", "", False)],
)  # fmt: skip
def test_processors_that_do_not_set_the_bits_of_tsa(family: str, number: str, immune: bool) -> None:
    """Family and model decide, without CPUID."""
    assert hidden(Model("AuthenticAMD", family=family, model=number)) == (
        {"TSA_L1_NO", "TSA_SQ_NO"} if immune else set()
    )
    assert hidden(Model("GenuineIntel", family=family, model=number)) == set()
