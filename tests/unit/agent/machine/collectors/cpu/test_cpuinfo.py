"""/proc/cpuinfo of each architecture, whole and damaged. The samples contain only the relevant lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.cpu_trees import cpuset, reader
from zonewise.machine.collectors.cpu.arm_parts import IMPLEMENTERS, core_name, midr_core_name
from zonewise.machine.collectors.cpu.cpuinfo import PATH, cpu_model, parse_cpuinfo, read_cpuinfo
from zonewise.machine.model.cpu import Model, SharedCache, Variant
from zonewise_common.k8s.cpuset import EMPTY, MAX_CPUS, CpuSet

X86 = """processor\t: {}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8480+
stepping\t: 8
flags\t\t: fpu vme avx512f
power management:

"""

ARM64 = """processor\t: {}
Features\t: fp asimd sve
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x{}
CPU part\t: 0x{}
CPU revision\t: 1

"""

ARM32 = """Processor\t: ARMv7 Processor rev 4 (v7l)
processor\t: 0
BogoMIPS\t: 1694.10

processor\t: 1
BogoMIPS\t: 1694.10

Features\t: swp half neon
CPU implementer\t: 0x41
CPU architecture: 7
CPU variant\t: 0x0
CPU part\t: 0xc0f
CPU revision\t: 4

Hardware\t: A board
"""

POWER = """processor\t: 0
cpu\t\t: POWER9, altivec supported
clock\t\t: 3450.000000MHz
revision\t: 2.1 (pvr 004e 1201)

processor\t: 1
cpu\t\t: POWER9, altivec supported
clock\t\t: 3450.000000MHz
revision\t: 2.1 (pvr 004e 1201)

timebase\t: 512000000
platform\t: PowerNV
model\t\t: 8335-GTH
machine\t\t: PowerNV 8335-GTH
"""

S390 = """vendor_id       : IBM/S390
# processors    : 2
bogomips per cpu: 3033.00
features\t: esan3 zarch vx\x20
cache0          : level=1 type=Data scope=Private size=128K line_size=256 associativity=8
cache4          : level=3 type=Unified scope=Shared size=256M line_size=256 associativity=32
cache5          : level=4 type=Unified scope=Shared size=junk line_size=256 associativity=60
processor 0: version = FF,  identification = 1633E8,  machine = 3906
processor 1: version = FF,  identification = 1633E8,  machine = 3906

cpu number      : 0
cpu MHz dynamic : 5200

cpu number      : 1
cpu MHz dynamic : 5200
"""

IA64 = """processor  : 0
vendor     : GenuineIntel
arch       : IA-64
family     : 31
model      : 2
model name : Madison up to 9M cache
revision   : 1
features   : branchlong, 16-byte atomic ops

"""

SPARC = """cpu\t\t: TI UltraSparc II  (BlackBird)
type\t\t: sun4u
ncpus probed\t: 2
cpucaps\t\t: flush,stbar,v9
State:
CPU6:\t\tonline
CPU7:\t\tonline
"""

RISCV = """processor\t: {}
hart\t\t: 3
isa\t\t: rv64imafdc_zba
mmu\t\t: sv39
uarch\t\t: sifive,u74-mc
mvendorid\t: 0x489
marchid\t\t: 0x8000000000000007
mimpid\t\t: 0x4210427

"""

LOONGARCH = """system type\t\t: generic-loongson-machine

processor\t\t: 0
package\t\t\t: 0
CPU Family\t\t: Loongson-64bit
Model Name\t\t: Loongson-3A5000-HV
CPU Revision\t\t: 0x11
ISA\t\t\t: loongarch32 loongarch64
Features\t\t: cpucfg lam lsx

"""

TWO = cpuset("0-1")


def model(text: str, cpus: CpuSet = TWO) -> Model:
    """Return the model that a text describes."""
    return cpu_model(parse_cpuinfo(text), cpus)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            X86.format(0) + X86.format(1),
            Model("GenuineIntel", "Intel(R) Xeon(R) Platinum 8480+", "6", "143", "8", ("fpu", "vme", "avx512f")),
        ),
        (
            ARM64.format(0, 0, "d4f") + ARM64.format(1, 0, "d4f"),
            Model("ARM", "Neoverse-V2", "8", "0xd4f", "r0p1", ("fp", "asimd", "sve")),
        ),
        (ARM32, Model("ARM", "Cortex-A15", "7", "0xc0f", "r0p4", ("swp", "half", "neon"))),
        (POWER, Model(None, "POWER9, altivec supported", None, None, "2.1 (pvr 004e 1201)")),
        (S390, Model("IBM/S390", None, None, None, None, ("esan3", "zarch", "vx"))),
        (
            IA64 + IA64.replace(": 0", ": 1", 1),
            Model("GenuineIntel", "Madison up to 9M cache", "31", "2", "1", ("branchlong", "16-byte atomic ops")),
        ),
        (SPARC, Model(None, "TI UltraSparc II  (BlackBird)", None, None, None, ("flush", "stbar", "v9"))),
        (
            RISCV.format(0) + RISCV.format(1),
            Model("0x489", "sifive,u74-mc", None, "0x8000000000000007", "0x4210427", (), "rv64imafdc_zba"),
        ),
        (
            LOONGARCH + LOONGARCH.replace("processor\t\t: 0", "processor\t\t: 1"),
            Model(
                None,
                "Loongson-3A5000-HV",
                "Loongson-64bit",
                None,
                "0x11",
                ("cpucfg", "lam", "lsx"),
                "loongarch32 loongarch64",
            ),
        ),
    ],
    ids=["x86", "arm64", "arm32", "power", "s390", "ia64", "sparc", "riscv", "loongarch"],
)
def test_each_dialect(text: str, expected: Model) -> None:
    """Vendor, name, family, model, stepping and features are read wherever the architecture prints them."""
    variants = (Variant(TWO, expected.name),) if expected.name else ()
    assert model(text) == expected._replace(variants=variants)


def test_arm_hybrid() -> None:
    """CPUs with one name form a variant; the revision of a core does not make another."""
    parts = ((0, "d46"), (0, "d46"), (0, "d4d"), (1, "d4d"), (0, "d4e"))
    text = "".join(ARM64.format(cpu, variant, part) for cpu, (variant, part) in enumerate(parts))
    parsed = model(text, cpuset("0-4"))
    assert parsed.name == "Cortex-A510"
    assert parsed.variants == (
        Variant(cpuset("0-1"), "Cortex-A510"),
        Variant(cpuset("2-3"), "Cortex-A715"),
        Variant(cpuset("4"), "Cortex-X3"),
    )


def test_an_unknown_arm_core_keeps_its_numbers() -> None:
    """A part that is in no table has no name; an implementer that is in no table is named by its number."""
    text = ARM64.format(0, 0, "fff").replace("0x41", "0xee")
    assert model(text, cpuset("0")) == Model("0xee", None, "8", "0xfff", "r0p1", ("fp", "asimd", "sve"))


def test_only_online_cpus_make_variants() -> None:
    """A CPU that is described but not online is not part of the machine's variants."""
    assert model(X86.format(0) + X86.format(7), cpuset("0")).variants[0].cpus == cpuset("0")


def test_blanks_around_names() -> None:
    """Intel pads names at the front, AMD at the end; inner blanks belong to the name."""
    text = X86.format(0).replace("Intel(R) Xeon(R) Platinum 8480+", "      Xeon(TM) CPU   2.60GHz     ")
    assert model(text).name == "Xeon(TM) CPU   2.60GHz"


def test_machine_type_and_shared_caches_of_s390() -> None:
    """The machine's number and its caches are only in /proc/cpuinfo; an invalid size is unknown."""
    info = parse_cpuinfo(S390)
    assert info.machine_type() == "3906"
    assert info.shared_caches() == (SharedCache(3, "Unified", 256 << 20), SharedCache(4, "Unified", None))
    assert parse_cpuinfo(POWER).machine_type() is None
    assert parse_cpuinfo(X86.format(0)).shared_caches() == ()


def test_midr() -> None:
    """The register agrees with the two lines in /proc/cpuinfo."""
    assert midr_core_name(0x411FD461) == core_name(0x41, 0xD46) == "Cortex-A510"
    assert midr_core_name(0x481FD010) == "TaiShan-v110"
    assert midr_core_name(0) is None
    assert all(0 <= part <= 0xFFF for implementer in IMPLEMENTERS.values() for part in implementer.parts)


def test_absent_cpuinfo() -> None:
    """Without the file there is no model, and the loss is reported once."""
    read = reader({"sys": None})
    assert cpu_model(read_cpuinfo(read), TWO) == Model()
    assert [problem.path for problem in read.problems] == [f"/{PATH}"]


@pytest.mark.parametrize("content", [b"", b"\n", b"\0\0\0", b"nothing\n", b"\xff\xfe\x80\n", b"1 2 3\n\n\n"])
def test_noise(content: bytes) -> None:
    """Noise describes no CPU and is reported as damage."""
    read = reader({PATH: content})
    assert cpu_model(read_cpuinfo(read), TWO).variants == ()
    assert {problem.path for problem in read.problems} == {f"/{PATH}"}


def test_a_cut_file() -> None:
    """The lines before the cut are used, and the cut is reported."""
    read = reader({PATH: (X86.format(0) + X86.format(1))[:-60].encode()})
    info = read_cpuinfo(read)
    assert set(info.own) == {0, 1}
    assert "truncated" in read.problems[0].problem


def test_bytes_that_are_not_text() -> None:
    """A name in another encoding is shown with its bytes escaped and reported as damaged."""
    read = reader({PATH: X86.format(0).encode().replace(b"Xeon(R)", b"X\xe9on")})
    assert cpu_model(read_cpuinfo(read), cpuset("0")).name == "Intel(R) X\\xe9on Platinum 8480+"
    assert "UTF-8" in read.problems[0].problem


def test_control_characters_are_not_a_name() -> None:
    """A value with a NUL inside is not text."""
    assert model(X86.format(0).replace("8480+", "84\0")).name is None


@pytest.mark.parametrize("number", ["-1", "x", "99999999999999999999", str(MAX_CPUS), "", "٣", "1_0"])
def test_invalid_processor_numbers(number: str) -> None:
    """Lines of a processor that cannot exist belong to no CPU."""
    assert parse_cpuinfo(X86.format(number)).own == {}
    assert parse_cpuinfo(X86.format(number)).common == {}


@given(st.text(max_size=200) | st.text("processor\t :0123456789\nabcdef", max_size=200))
def test_anything_is_read_without_error(text: str) -> None:
    """For any content, the ids are within bounds, and a model can be built."""
    info = parse_cpuinfo(text)
    assert all(0 <= cpu < MAX_CPUS for cpu in info.own)
    assert cpu_model(info, TWO).variants is not None
    assert cpu_model(info, EMPTY).variants == ()


@given(st.sets(st.integers(0, 300), min_size=1, max_size=30))
def test_every_described_cpu_is_listed(cpus: set[int]) -> None:
    """Each block is one CPU, whatever the order and the gaps of the numbers."""
    info = parse_cpuinfo("".join(X86.format(cpu) for cpu in cpus))
    assert set(info.own) == cpus
    assert cpu_model(info, CpuSet(cpus)).variants == (Variant(CpuSet(cpus), "Intel(R) Xeon(R) Platinum 8480+"),)
