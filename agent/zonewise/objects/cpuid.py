"""Maps the names of instruction set features from those of /proc/cpuinfo to those of Node Feature Discovery.

NFD executes the CPUID instruction and names the bits after the Go package klauspost/cpuid; on other architectures it
names the bits of the auxiliary vector. The kernel prints the same bits under its own names
(arch/x86/include/asm/cpufeatures.h, arch/arm64/kernel/cpuinfo.c). So each name follows from a printed flag, and CPUID
need not be executed.

Bits that the kernel does not print are known if the device /dev/cpu/N/cpuid can be read (zonewise.objects.cpuid_bits).
All bits of POWER are unknown, because its /proc/cpuinfo has no flags.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise.machine.model.machine import X86
from zonewise.objects.cpuid_bits import hidden_features

if TYPE_CHECKING:
    from collections.abc import Iterator

    from zonewise.machine.model.cpu import Model

_X86_NAMES = """
    3dnow=AMD3DNOW 3dnowext=AMD3DNOWEXT abm=LZCNT adx=ADX aes=AESNI amd_ppin=PPIN amx_bf16=AMXBF16
    amx_complex=AMXCOMPLEX amx_fp16=AMXFP16 amx_int8=AMXINT8 amx_tile=AMXTILE apx=APX_F
    arch_capabilities=IA32_ARCH_CAP avx2=AVX2 avx512_bf16=AVX512BF16 avx512_bitalg=AVX512BITALG
    avx512_fp16=AVX512FP16 avx512_vbmi2=AVX512VBMI2 avx512_vnni=AVX512VNNI avx512_vp2intersect=AVX512VP2INTERSECT
    avx512_vpopcntdq=AVX512VPOPCNTDQ avx512bw=AVX512BW avx512cd=AVX512CD avx512dq=AVX512DQ avx512er=AVX512ER
    avx512f=AVX512F avx512ifma=AVX512IFMA avx512pf=AVX512PF avx512vbmi=AVX512VBMI avx512vl=AVX512VL avx=AVX
    avx_ifma=AVXIFMA avx_ne_convert=AVXNECONVERT avx_vnni=AVXVNNI avx_vnni_int16=AVXVNNIINT16
    avx_vnni_int8=AVXVNNIINT8 bmi1=BMI1 bmi2=BMI2 cldemote=CLDEMOTE clzero=CLZERO cmov=CMOV cmpccxadd=CMPCCXADD
    core_capabilities=IA32_CORE_CAP cpb=CPBOOST cppc=CPPC cx16=CX16 cx8=CMPXCHG8 debug_swap=SEV_DEBUGSWAP
    decodeassists=SVMDA enqcmd=ENQCMD erms=ERMS f16c=F16C flush_l1d=FLUSH_L1D flushbyasid=SVMFBASID fma4=FMA4
    fma=FMA3 fpu=X87 fsrc=CMPSB_SCADBS_SHORT fsrm=FSRM fsrs=STOSB_SHORT fxsr=FXSR fxsr_opt=FXSROPT fzrm=MOVSB_ZL
    gfni=GFNI hle=HLE hypervisor=HYPERVISOR ibpb=IBPB ibs=IBS ibt=CETIBT invlpgb=INVLPGB irperf=MSRIRC lahf_lm=LAHF
    lam=LAM lbrv=LBRVIRT md_clear=MD_CLEAR mmx=MMX mmxext=MMXEXT movbe=MOVBE movdir64b=MOVDIR64B movdiri=MOVDIRI
    mpx=MPX npt=SVMNP nrip_save=NRIPS nx=NX overflow_recov=MCAOVERFLOW pausefilter=SVMPF pclmulqdq=CLMUL
    pconfig=PCONFIG pfthreshold=SVMPFT pni=SSE3 popcnt=POPCNT rdpru=RDPRU rdrand=RDRAND rdseed=RDSEED rdtscp=RDTSCP
    rtm=RTM sep=SYSEE serialize=SERIALIZE sev=SEV sev_es=SEV_ES sev_snp=SEV_SNP sgx=SGX sgx_lc=SGXLC sha_ni=SHA
    sm3=SM3_X86 sm4=SM4_X86 sme=SME sse2=SSE2 sse4_1=SSE4 sse4_2=SSE42 sse4a=SSE4A sse=SSE ssse3=SSSE3 stibp=STIBP
    succor=SUCCOR svm=SVM svm_lock=SVML syscall=SYSCALL tdx_guest=TDX_GUEST tme=TME topoext=TOPEXT
    tsc_scale=TSCRATEMSR tsxldtrk=TSXLDTRK user_shstk=CETSS vaes=VAES vmcb_clean=VMCBCLEAN vmx=VMX
    vpclmulqdq=VPCLMULQDQ waitpkg=WAITPKG wbnoinvd=WBNOINVD wrmsrns=WRMSRNS xgetbv1=XGETBV1 xop=XOP xsave=XSAVE
    xsavec=XSAVEC xsaveopt=XSAVEOPT xsaves=XSAVES
"""
"""x86: kernel=NFD. The kernel's ibrs and ssbd also stand for other bits, so they are not mapped."""

_X86_IMPLIED = {"sse": "FXSROPT", "xsave": "OSXSAVE"}
"""Names that also follow from a flag. FXSROPT is a peculiarity of the Go package (it takes bit 25 of the wrong leaf),
on which existing selectors may rely. If the kernel prints xsave, it has enabled it (arch/x86/kernel/fpu/xstate.c)."""

_X86_LEVELS = (
    "cmov cx8 fpu fxsr mmx syscall sse sse2",
    "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3",
    "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave",
    "avx512f avx512bw avx512cd avx512dq avx512vl",
)
"""The flags that each level of the x86-64 psABI adds to the previous level; the kernel calls SSE3 "pni" and LZCNT
"abm"."""

_ARM64_NAMES = """
    aes afp asimd asimddp asimdfhm asimdhp asimdrdm atomics bf16 bti cpuid crc32 dcpodp dcpop dgh dit ebf16 ecv evtstrm
    fcma flagm flagm2 fp fphp frint i8mm ilrcpc jscvt lrcpc mte mte3 paca pacg pmull rng rpres sb sha1 sha2 sha3 sha512
    sm3 sm4 sme smeb16f32 smef16f32 smef32f32 smef64f64 smefa64 smei16i64 smei8i32 ssbs sve sve2 sveaes svebf16
    svebitperm sveebf16 svef32mm svef64mm svei8mm svepmull svesha3 svesm4 uscat wfxt
"""

_S390_NAMES = """
    dflt dfp edat eimm esan3 etf3eh gs highgprs ldisp msa nnpa pcimio sie sort stfle te vx vxd vxe vxe2 vxp vxp2 zarch
"""

_ARM_NAMES = """
    26bit aes crc32 crunch edsp evtstrm fpa half idiva idivt iwmmxt java lpae neon pmull sha1 sha2 swp thumb thumbee
    tls vfp vfpd32
"""
_ARM_MIXED_CASE = {"fastmult": "FASTMUL", "vfpv3": "VFPv3", "vfpv3d16": "VFPv3D16", "vfpv4": "VFPv4"}


def cpuid_features(architecture: str | None, model: Model) -> list[str]:
    """Return NFD's names for the flags of /proc/cpuinfo, sorted."""
    present = set(model.flags)
    known = _known_names(architecture or "")
    names = {known[flag] for flag in present if flag in known}
    if architecture in X86:
        names.update(hidden_features(model))
        names.update(name for flag, name in _X86_IMPLIED.items() if flag in present)
        names.update(_slow_avx(model))
        names.update(_levels(present))
    return sorted(names)


def _slow_avx(model: Model) -> Iterator[str]:
    """Yield AVXSLOW for processors that split 256-bit operations: before Haswell and Zen 2 (klauspost/cpuid,
    support()).
    """
    family, number = model.family or "", model.model or ""
    if "avx" not in model.flags or not (family.isdecimal() and number.isdecimal()):
        return
    processor = (int(family), int(number))
    if (model.vendor == "GenuineIntel" and processor[0] == 6 and processor[1] < 60) or (
        model.vendor == "AuthenticAMD" and processor < (23, 49)
    ):
        yield "AVXSLOW"


def _known_names(architecture: str) -> dict[str, str]:
    if architecture in X86:
        return {kernel: name for kernel, _, name in (pair.partition("=") for pair in _X86_NAMES.split())}
    if architecture == "aarch64":
        return {name: name.upper() for name in _ARM64_NAMES.split()}
    if architecture.startswith("s390"):
        return {name: name.upper() for name in _S390_NAMES.split()}
    if architecture.startswith("arm"):
        return {name: name.upper() for name in _ARM_NAMES.split()} | _ARM_MIXED_CASE
    return {}


def _levels(present: set[str]) -> list[str]:
    levels: list[str] = []
    for number, added in enumerate(_X86_LEVELS, start=1):
        if not present.issuperset(added.split()):
            break
        levels.append(f"X86_64_V{number}")
    return levels
