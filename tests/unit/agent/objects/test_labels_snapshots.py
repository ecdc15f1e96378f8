"""The labels of captured machines, as tables."""

from __future__ import annotations

import pytest

from support.snapshots import ABSENT, scan_of, snapshots
from zonewise.objects.features import node_features
from zonewise.objects.labels import build_labels

NFD = "feature.node.kubernetes.io/"

TABLES = {
    "hwloc/32intel64-2p8co2t+8ve": """
        cpuid: ADX AESNI AVX AVX2 AVX512BW AVX512CD AVX512DQ AVX512F AVX512VL CMPXCHG8 FLUSH_L1D FMA3 FXSR
          FXSROPT HLE IBPB LAHF MD_CLEAR MOVBE MPX OSXSAVE RTM STIBP SYSCALL SYSEE VMX X86_64_V1 X86_64_V2
          X86_64_V3 X86_64_V4 X87 XGETBV1 XSAVE XSAVEC XSAVEOPT
        cpu-hardware_multithreading=true
        cpu-model.family=6
        cpu-model.hypervisor=none
        cpu-model.id=85
        cpu-model.vendor_id=Intel
        cpu-pstate.status=active
        cpu-pstate.turbo=true
        kernel-version.full=3.10.0-1160.15.2.el7.x86_64
        kernel-version.major=3
        kernel-version.minor=10
        kernel-version.revision=0
        memory-numa=true
        network-sriov.capable=true
        pci-0b40_1bcf.present=true
        rdma.capable=true
        zonewise.dev/cores-per-zone=8
        zonewise.dev/cpus-per-zone=16
        zonewise.dev/l3-cpus=16
        zonewise.dev/l3-groups=2
        zonewise.dev/packages=2
        zonewise.dev/threads-per-core=2
        zonewise.dev/zones=2
    """,
    "hwloc/5intel64-hybrid-lakefield": """
        cpuid: AESNI CMPXCHG8 FLUSH_L1D FXSR FXSROPT GFNI IA32_ARCH_CAP IBPB LAHF MD_CLEAR MOVBE OSXSAVE SHA
          STIBP SYSCALL SYSEE VMX X86_64_V1 X86_64_V2 X87 XGETBV1 XSAVE XSAVEC XSAVEOPT XSAVES
        cpu-hardware_multithreading=false
        cpu-model.family=6
        cpu-model.hypervisor=none
        cpu-model.id=138
        cpu-model.vendor_id=Intel
        cpu-pstate.scaling_governor=powersave
        cpu-pstate.status=active
        cpu-pstate.turbo=true
        kernel-version.full=5.3.0-28-generic
        kernel-version.major=5
        kernel-version.minor=3
        kernel-version.revision=0
        zonewise.dev/cores-per-zone=5
        zonewise.dev/cpus-per-zone=5
        zonewise.dev/hybrid=true
        zonewise.dev/l3-cpus=5
        zonewise.dev/l3-groups=1
        zonewise.dev/packages=1
        zonewise.dev/threads-per-core=1
        zonewise.dev/zones=1
    """,
    "lscpu/arm-A510-A710-A715-X3": """
        cpuid: AES ASIMD ASIMDDP ASIMDFHM ASIMDHP ASIMDRDM ATOMICS BF16 BTI CPUID CRC32 DCPODP DCPOP DIT EVTSTRM
          FCMA FLAGM FLAGM2 FP FPHP FRINT I8MM ILRCPC JSCVT LRCPC PACA PACG PMULL SB SHA1 SHA2 SHA3 SHA512 SM3
          SM4 SSBS USCAT
        cpu-hardware_multithreading=false
        zonewise.dev/cores-per-zone=8
        zonewise.dev/cpus-per-zone=8
        zonewise.dev/hybrid=true
        zonewise.dev/l3-cpus=8
        zonewise.dev/l3-groups=1
        zonewise.dev/packages=3
        zonewise.dev/threads-per-core=1
        zonewise.dev/zones=1
    """,
    "lscpu/s390-zvm": """
        cpuid: DFP EIMM ESAN3 ETF3EH HIGHGPRS LDISP MSA STFLE ZARCH
        cpu-hardware_multithreading=false
        cpu-model.hypervisor=z_VM_6.1.0
        cpu-model.id=2817
        cpu-model.vendor_id=IBM_S390
        zonewise.dev/cores-per-zone=4
        zonewise.dev/cpus-per-zone=4
        zonewise.dev/packages=4
        zonewise.dev/threads-per-core=1
        zonewise.dev/zones=1
    """,
    "lscpu/x86_64-epyc_7451": """
        cpuid: ADX AESNI AVX AVX2 AVXSLOW CLZERO CMPXCHG8 CPBOOST FMA3 FXSR FXSROPT IBPB LAHF LBRVIRT
          MCAOVERFLOW MOVBE MSRIRC NRIPS OSXSAVE SHA SSE4A SUCCOR SVM SVMDA SVMFBASID SVML SVMNP SVMPF SVMPFT
          SYSCALL SYSEE TOPEXT TSA_L1_NO TSA_SQ_NO TSCRATEMSR VMCBCLEAN X86_64_V1 X86_64_V2 X86_64_V3 X87
          XGETBV1 XSAVE XSAVEC
          XSAVEOPT XSAVES
        cpu-hardware_multithreading=true
        cpu-model.family=23
        cpu-model.hypervisor=none
        cpu-model.id=1
        cpu-model.vendor_id=AMD
        memory-numa=true
        zonewise.dev/cores-per-zone=6
        zonewise.dev/cpus-per-zone=12
        zonewise.dev/l3-cpus=6
        zonewise.dev/l3-groups=16
        zonewise.dev/packages=2
        zonewise.dev/threads-per-core=2
        zonewise.dev/zones=8
    """,
    "synthetic/gb200": """
        cpuid:
        cpu-hardware_multithreading=false
        memory-numa=true
        pci-0302_10de.present=true
        rdma.capable=true
        zonewise.dev/cores-per-zone=8
        zonewise.dev/cpus-per-zone=8
        zonewise.dev/gpu-nic=NODE
        zonewise.dev/gpus=4
        zonewise.dev/gpus-per-zone=2
        zonewise.dev/nvidia-gpu=true
        zonewise.dev/packages=2
        zonewise.dev/rdma-gbps=800
        zonewise.dev/rdma-link-layer=InfiniBand
        zonewise.dev/rdma-ports=4
        zonewise.dev/rdma-ports-per-zone=2
        zonewise.dev/threads-per-core=1
        zonewise.dev/zones=2
    """,
    "synthetic/hgx_h100": """
        cpuid:
        cpu-hardware_multithreading=false
        memory-numa=true
        network-sriov.capable=true
        pci-0302_10de.present=true
        rdma.capable=true
        zonewise.dev/cores-per-zone=8
        zonewise.dev/cpus-per-zone=8
        zonewise.dev/gpu-nic=PIX
        zonewise.dev/gpus=8
        zonewise.dev/gpus-per-zone=4
        zonewise.dev/nvidia-gpu=true
        zonewise.dev/packages=2
        zonewise.dev/rdma-gbps=400
        zonewise.dev/rdma-link-layer=InfiniBand
        zonewise.dev/rdma-ports=9
        zonewise.dev/rdma-ports-per-zone=4
        zonewise.dev/threads-per-core=1
        zonewise.dev/zones=2
    """,
}
"""By capture: the names after cpu-cpuid., then name=value without NFD's prefix."""


@pytest.mark.parametrize("name", TABLES)
def test_labels_of_a_capture(name: str) -> None:
    """The table has all labels of the machine and no other; none was sanitized or omitted."""
    if name not in snapshots():
        pytest.skip(ABSENT)
    machine = scan_of(name).machine
    labels = build_labels(machine, node_features(machine))
    assert labels.problems == ()
    assert {label.removeprefix(NFD): value for label, value in labels.values.items()} == _table(TABLES[name])


def _table(text: str) -> dict[str, str]:
    words = text.split()[1:]
    flags = {f"cpu-cpuid.{word}": "true" for word in words if "=" not in word}
    return flags | dict(word.split("=") for word in words if "=" in word)


@pytest.mark.parametrize("name", snapshots())
def test_a_second_scan_gives_equal_labels(name: str) -> None:
    """The labels and features of a capture are canonical: the same files give equal ones, even in order."""
    machine = scan_of(name).machine
    features = node_features(machine)
    assert repr(node_features(machine)) == repr(features)
    assert list(build_labels(machine, features).values) == sorted(build_labels(machine, features).values)
