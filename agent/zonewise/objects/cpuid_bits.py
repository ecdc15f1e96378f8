"""Names of the features that /proc/cpuinfo does not print, from the bits of CPUID if these could be read.

Names and conditions are those of the Go package klauspost/cpuid (cpuid.go, support()), whose names NFD uses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.cpu import CpuidLeaf, Model


class _Register(NamedTuple):
    leaf: int
    subleaf: int
    name: str
    bits: str
    """Pairs of bit=NAME."""
    flag: str = ""
    """The kernel flag without which the bits have no meaning; empty if none is needed."""
    vendor: str = ""


_AMD = "AuthenticAMD"
_REGISTERS = (
    _Register(0x7, 0, "ecx", "7=CETSS 23=KEYLOCKER"),
    _Register(0x7, 0, "ecx", "3=AMXFP8", flag="avx512f"),
    _Register(
        0x7, 0, "edx",
        "9=SRBDS_CTRL 11=RTM_ALWAYS_ABORT 15=HYBRID_CPU 20=CETIBT 26=IBPB 27=STIBP 30=IA32_CORE_CAP 31=SPEC_CTRL_SSBD",
    ),
    _Register(
        0x7, 1, "eax",
        "1=SM3_X86 2=SM4_X86 7=CMPCCXADD 10=MOVSB_ZL 11=STOSB_SHORT 12=CMPSB_SCADBS_SHORT 17=FRED 22=HRESET "
        "23=AVXIFMA 26=LAM",
    ),
    _Register(0x7, 1, "eax", "19=WRMSRNS 21=AMXFP16 27=MSRLIST", flag="avx512f"),
    _Register(
        0x7, 1, "edx",
        "4=AVXVNNIINT8 5=AVXNECONVERT 6=AMXTRANSPOSE 7=AMXTF32 8=AMXCOMPLEX 10=AVXVNNIINT16 14=PREFETCHI 19=AVX10 "
        "21=APX_F",
    ),
    _Register(0x7, 2, "edx", "0=PSFD 1=IDPRED_CTRL 2=RRSBA_CTRL 4=BHI_CTRL 5=MCDT_NO"),
    _Register(0x12, 0, "eax", "12=SGXPQC", flag="sgx"),
    _Register(0x80000007, 0, "ebx", "2=HWA"),
    _Register(
        0x80000008, 0, "ebx",
        "8=MCOMMIT 12=IBPB 13=INT_WBINVD 14=IBRS 15=STIBP 17=STIBP_ALWAYSON 18=IBRS_PREFERRED 19=IBRS_PROVIDES_SMP "
        "20=EFER_LMSLE_UNS 21=TLB_FLUSH_NESTED 24=SPEC_CTRL_SSBD 28=PSFD",
    ),
    _Register(0x8000001A, 0, "eax", "0=FP128 1=MOVU 2=FP256"),
    _Register(
        0x8000001B, 0, "eax",
        "0=IBSFFV 1=IBSFETCHSAM 2=IBSOPSAM 3=IBSRDWROPCNT 4=IBSOPCNT 5=IBSBRNTRGT 6=IBSOPCNTEXT 7=IBSRIPINVALIDCHK "
        "8=IBS_OPFUSE 9=IBS_FETCH_CTLX 10=IBS_OPDATA4 11=IBS_ZEN4",
        flag="ibs",
    ),
    _Register(
        0x8000001F, 0, "eax",
        "0=SME 1=SEV 2=MSR_PAGEFLUSH 3=SEV_ES 4=SEV_SNP 5=VMPL 10=SME_COHERENT 11=SEV_64BIT 12=SEV_RESTRICTED "
        "13=SEV_ALTERNATIVE 14=SEV_DEBUGSWAP 15=IBS_PREVENTHOST 16=VTE 24=VMSA_REGPROT",
        vendor=_AMD,
    ),
    _Register(
        0x80000021, 0, "eax",
        "5=TSA_VERW_CLEAR 23=AVX512BMM 27=SBPB 28=IBPB_BRTYPE 29=SRSO_NO 30=SRSO_USER_KERNEL_NO 31=SRSO_MSR_FIX",
        vendor=_AMD,
    ),
    _Register(0x80000021, 0, "ecx", "1=TSA_L1_NO 2=TSA_SQ_NO", vendor=_AMD),
)  # fmt: skip

_AVX10 = 1 << 19
"""The bit in EDX of leaf 7, subleaf 1. The kernel has no flag for it."""
_AVX10_PARTS = "16=AVX10_128 17=AVX10_256 18=AVX10_512"

_FIXED_COUNTERS = ("INSTRUCTIONS", "CYCLES", "REFCYCLES", "TOPDOWN_SLOTS")

_ZEN_3, _ZEN_5 = 0x19, 0x1A
_ZEN_5_LATER = range(0x50, 0x60)
"""Models of family 1Ah for which only CPUID shows whether they are vulnerable to TSA."""


def hidden_features(model: Model) -> Iterator[str]:
    """Yield the names of the features that CPUID shows and /proc/cpuinfo does not; without CPUID, those that can be
    inferred.
    """
    leaves = _by_number(model)
    for register in _REGISTERS:
        leaf = leaves.get((register.leaf, register.subleaf))
        if leaf is None or register.vendor not in ("", model.vendor):
            continue
        if not register.flag or register.flag in model.flags:
            yield from _names(getattr(leaf, register.name), register.bits)
    if (avx10 := _avx10_leaf(model)) is not None:
        yield from _names(avx10.ebx, _AVX10_PARTS)
    if (counters := leaves.get((0xA, 0))) is not None:
        yield from _fixed_counters(counters)
    yield from _not_vulnerable(model)


def avx10_version(model: Model) -> int | None:
    """Return the version of AVX10 (supportAVX10()); None without AVX10, or if CPUID could not be read."""
    leaf = _avx10_leaf(model)
    return None if leaf is None else leaf.ebx & 0xFF or None


def _avx10_leaf(model: Model) -> CpuidLeaf | None:
    """Return the leaf that describes AVX10, if the processor has AVX10."""
    leaves = _by_number(model)
    features = leaves.get((0x7, 1))
    return leaves.get((0x24, 0)) if features is not None and features.edx & _AVX10 else None


def _by_number(model: Model) -> dict[tuple[int, int], CpuidLeaf]:
    return {(leaf.leaf, leaf.subleaf): leaf for leaf in model.leaves}


def _fixed_counters(leaf: CpuidLeaf) -> Iterator[str]:
    """Yield the fixed performance counters of a processor (parseLeaf0AH()), by their number or by the bits of EBX."""
    version = leaf.eax & 0xFF
    number = leaf.edx & 0x1F if version > 1 else 0
    for i, event in enumerate(_FIXED_COUNTERS):
        is_counted = not leaf.ebx >> i & 1 if leaf.ebx else number in (3, 4) and i < number
        if version and is_counted:
            yield f"PMU_FIXEDCOUNTER_{event}"


def _names(value: int, bits: str) -> Iterator[str]:
    for bit, _, name in (pair.partition("=") for pair in bits.split()):
        if value >> int(bit) & 1:
            yield name


def _not_vulnerable(model: Model) -> Iterator[str]:
    """Yield the two bits about transient scheduler attacks that AMD's older and newer processors do not set."""
    family, number = model.family or "", model.model or ""
    if model.vendor != _AMD or not (family.isdecimal() and number.isdecimal()):
        return
    if int(family) < _ZEN_3 or (int(family) == _ZEN_5 and int(number) < 0x80 and int(number) not in _ZEN_5_LATER):
        yield from ("TSA_L1_NO", "TSA_SQ_NO")
