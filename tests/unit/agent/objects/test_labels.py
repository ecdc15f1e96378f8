"""The labels: those of NFD and GFD by name and value, zonewise's own, and their validity for any machine."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.any_machines import any_machines
from support.machine_parts import Slot, function
from support.machines import ALL, big_machine, gpu_server, hybrid, small_vm, tiered_memory
from zonewise.machine.model.cpu import Mainframe, Model
from zonewise.machine.model.host import Firmware, Kernel, Nvdimm, Virtualization
from zonewise.machine.model.machine import Machine
from zonewise.machine.model.network import RdmaDevice
from zonewise.objects.gfd_resources import sanitized_name
from zonewise.objects.labels import machine_to_labels, render_labels, sanitized_label_value

NAME = re.compile(r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


def nfd(machine: Machine) -> dict[str, str]:
    return _below("feature.node.kubernetes.io/", machine)


def own(machine: Machine) -> dict[str, str]:
    return _below("zonewise.dev/", machine)


def _below(prefix: str, machine: Machine) -> dict[str, str]:
    labels = machine_to_labels(machine)
    return {name.removeprefix(prefix): value for name, value in labels.items() if name.startswith(prefix)}


def x86(flags: str, vendor: str | None = None, family: str | None = None, model: str | None = None) -> Machine:
    cpu_model = Model(vendor, None, family, model, flags=tuple(flags.split()))
    return Machine(architecture="x86_64", model=cpu_model)


def arm(flags: str, vendor: str | None = None, model: str | None = None, stepping: str | None = None) -> Machine:
    cpu_model = Model(vendor, None, "8", model, stepping, tuple(flags.split()))
    return Machine(architecture="aarch64", model=cpu_model)


@pytest.mark.parametrize("name", ALL)
def test_kubernetes_accepts_every_label(name: str) -> None:
    """Names and values are valid, and names are sorted."""
    labels = machine_to_labels(ALL[name]())
    assert labels
    assert list(labels) == sorted(labels)
    assert all(NAME.fullmatch(label) and VALUE.fullmatch(value) for label, value in labels.items())


@given(st.text(max_size=100), st.text(max_size=100))
def test_valid_whatever_the_source(text: str, second: str) -> None:
    """Garbled text gives a valid label or none."""
    machine = gpu_server()
    gpu = machine.gpus[0]._replace(model=text, driver_version=second, compute_capability=text)
    function = machine.pci[0]._replace(pci_class="0300", vendor=text)
    garbled = machine._replace(
        gpus=(gpu,), pci=(function,), kernel=Kernel(text), firmware=Firmware(product=second),
        model=Model(vendor=text, family=text, model=second, flags=(text,)),
    )  # fmt: skip
    assert all(NAME.fullmatch(name) and VALUE.fullmatch(value) for name, value in machine_to_labels(garbled).items())


@given(st.text(max_size=200))
def test_any_text_becomes_a_value(text: str) -> None:
    """Any text becomes a valid value; a valid value is unchanged."""
    assert VALUE.fullmatch(sanitized_label_value(text))
    assert sanitized_label_value(sanitized_label_value(text)) == sanitized_label_value(text)


def test_a_machine_without_facts_has_no_label() -> None:
    """A machine without known facts has no label, not even a false one."""
    assert machine_to_labels(Machine()) == {}


def test_lines() -> None:
    """The format is that of a feature file: name=value on each line."""
    assert render_labels({"a/b": "1", "a/c": ""}) == "a/b=1\na/c=\n"


# --- NFD


def test_x86_features_have_the_names_of_nfd() -> None:
    """The kernel's names are translated; features that NFD omits by default are omitted."""
    labels = nfd(x86("fpu sse sse2 avx512f avx512_vnni amx_tile sha_ni aes hypervisor pclmulqdq bmi1 popcnt nx"))
    features = {name.removeprefix("cpu-cpuid.") for name in labels if name.startswith("cpu-cpuid.")}
    assert features == {"X87", "FXSROPT", "AVX512F", "AVX512VNNI", "AMXTILE", "SHA", "AESNI", "HYPERVISOR"}
    assert set(labels.values()) == {"true"}


V1 = "cmov cx8 fpu fxsr mmx syscall sse sse2 "
V2 = V1 + "cx16 lahf_lm popcnt pni sse4_1 sse4_2 ssse3 "
V3 = V2 + "avx avx2 bmi1 bmi2 f16c fma abm movbe xsave "
V4 = V3 + "avx512f avx512bw avx512cd avx512dq avx512vl "


@pytest.mark.parametrize(("flags", "level"), [("sse sse2", 0), (V1, 1), (V2, 2), (V3, 3), (V4, 4), (V4[4:], 0)])
def test_levels_of_x86_64(flags: str, level: int) -> None:
    """The levels of the psABI are cumulative: without a feature of the first level, none applies."""
    labels = nfd(x86(flags))
    assert [number for number in range(1, 5) if f"cpu-cpuid.X86_64_V{number}" in labels] == list(range(1, level + 1))


def test_arm_features() -> None:
    """On arm64, names are the kernel's in upper case; names that NFD's table lacks are omitted."""
    labels = nfd(arm("fp asimd sve2 i8mm lse128"))
    assert labels == {f"cpu-cpuid.{name}": "true" for name in ("FP", "ASIMD", "SVE2", "I8MM")}


def test_other_architectures() -> None:
    """s390 and 32-bit ARM have their own tables; an unknown architecture has none."""
    assert "cpu-cpuid.VXE2" in nfd(Machine(architecture="s390x", model=Model(flags=("vxe2",))))
    assert "cpu-cpuid.VFPv3" in nfd(Machine(architecture="armv7l", model=Model(flags=("vfpv3",))))
    assert nfd(Machine(architecture="riscv64", model=Model(flags=("fp",)))) == {}


@pytest.mark.parametrize(
    ("vendor", "label"),
    [("GenuineIntel", "Intel"), ("AuthenticAMD", "AMD"), ("HygonGenuine", "Hygon"), ("  Shanghai  ", "VendorUnknown")],
)
def test_model_of_an_x86_processor(vendor: str, label: str) -> None:
    """The vendor has NFD's name; family and model are decimal numbers."""
    labels = nfd(x86("", vendor=vendor, family="6", model="143"))
    described = {name: value for name, value in labels.items() if name.startswith("cpu-model.")}
    assert described == {"cpu-model.vendor_id": label, "cpu-model.family": "6", "cpu-model.id": "143"}


def test_model_of_an_arm_processor() -> None:
    """Family and model are encoded as in the register MIDR_EL1: 0x413fd0c1 for a Neoverse N1."""
    labels = nfd(arm("cpuid", vendor="ARM", model="0xd0c", stepping="r3p1"))
    assert labels["cpu-model.vendor_id"] == "ARM"
    assert labels["cpu-model.family"] == str(0x3F)
    assert labels["cpu-model.id"] == str(0xD0C1)
    assert nfd(arm("fp", vendor="ARM", model="0xd0c", stepping="r3p1")) == {"cpu-cpuid.FP": "true"}


@pytest.mark.parametrize(
    ("hypervisor", "label"),
    [("KVM/Linux", "KVM_Linux"), ("z/VM 6.1.0", "z_VM_6.1.0"), ("PR/SM", "none")],
)
def test_model_of_an_s390x_processor(hypervisor: str, label: str) -> None:
    """The id is the machine type; characters that a label may not contain become "_"."""
    machine = Machine(architecture="s390x", model=Model("IBM/S390"), mainframe=Mainframe("2964"))
    assert nfd(machine._replace(virtualization=Virtualization(True, hypervisor))) == {
        "cpu-model.vendor_id": "IBM_S390",
        "cpu-model.id": "2964",
        "cpu-model.hypervisor": label,
    }


@pytest.mark.parametrize(
    ("virtualization", "label"),
    [
        (Virtualization(False), "none"),
        (Virtualization(True, "KVM"), "kvm"),
        (Virtualization(True, "Microsoft"), "msvm"),
        (Virtualization(True, None), None),
        (Virtualization(None), None),
    ],
)
def test_hypervisor(virtualization: Virtualization, label: str | None) -> None:
    """The label is "none" only if the machine is known to have no hypervisor."""
    assert nfd(x86("")._replace(virtualization=virtualization)).get("cpu-model.hypervisor") == label


def test_multithreading_may_be_false() -> None:
    """NFD also publishes false; without cores, the value is unknown."""
    assert nfd(gpu_server())["cpu-hardware_multithreading"] == "true"
    assert nfd(tiered_memory())["cpu-hardware_multithreading"] == "false"
    assert "cpu-hardware_multithreading" not in nfd(Machine())


@pytest.mark.parametrize(
    ("release", "parts"),
    [
        ("6.8.0-45-generic", {"full": "6.8.0-45-generic", "major": "6", "minor": "8", "revision": "0"}),
        ("5.14.0+rt", {"full": "5.14.0_rt"}),
        ("6.1", {"full": "6.1", "major": "6", "minor": "1"}),
    ],
)
def test_kernel_version(release: str, parts: dict[str, str]) -> None:
    """Other characters become underscores; the parts exist only if the version has the usual format."""
    assert nfd(Machine(kernel=Kernel(release))) == {f"kernel-version.{name}": text for name, text in parts.items()}


def test_kernel_options() -> None:
    """Built-in and module are both true, other values are unchanged, and only NFD's four default options are labels."""
    config = {"NO_HZ": "y", "NO_HZ_FULL": "y", "PREEMPT": "n", "NUMA": "y", "NO_HZ_IDLE": "m"}
    labels = nfd(Machine(kernel=Kernel(None, config=config)))
    assert labels == {f"kernel-config.{name}": "true" for name in ("NO_HZ", "NO_HZ_FULL", "NO_HZ_IDLE")}


def test_memory() -> None:
    """NUMA means more than one node of any kind; persistent memory is known from its devices."""
    assert "memory-numa" not in nfd(small_vm())
    assert nfd(tiered_memory())["memory-numa"] == "true"
    region, dax = Nvdimm("region0", "nd_pmem", None), Nvdimm("dax0.0", "nd_dax", None)
    assert nfd(Machine(nvdimms=(region,))) == {"memory-nv.present": "true"}
    assert nfd(Machine(nvdimms=(region, dax))) == {"memory-nv.present": "true", "memory-nv.dax": "true"}


def test_devices() -> None:
    """PCI functions of NFD's classes, SR-IOV NICs, disks without rotation, and RDMA have labels."""
    labels = nfd(gpu_server())
    assert {name for name in labels if name.startswith(("pci", "network", "storage", "rdma"))} == {
        "pci-0302_10de.present",
        "network-sriov.capable",
        "network-sriov.configured",
        "storage-nonrotationaldisk",
        "rdma.capable",
    }


def test_rdma_is_available_with_both_modules() -> None:
    """NFD's rule requires ib_uverbs and rdma_ucm."""
    assert "rdma.available" not in nfd(Machine(kernel=Kernel(None, modules=("ib_uverbs",))))
    assert nfd(Machine(kernel=Kernel(None, modules=("ib_uverbs", "rdma_ucm")))) == {"rdma.available": "true"}


# --- zonewise's own


def test_shape_of_a_gpu_server() -> None:
    """A few numbers suffice to choose a node."""
    assert own(gpu_server()) == {
        "cores-per-zone": "28",
        "cpus-per-zone": "56",
        "gpu-models": "1",
        "gpu-nic": "PIX",
        "gpus": "8",
        "gpus-of-zone-0.NVIDIA-H100-80GB-HBM3": "2",
        "gpus-of-zone-1.NVIDIA-H100-80GB-HBM3": "2",
        "gpus-of-zone-2.NVIDIA-H100-80GB-HBM3": "2",
        "gpus-of-zone-3.NVIDIA-H100-80GB-HBM3": "2",
        "gpus-per-zone": "2",
        "l3-cpus": "112",
        "l3-groups": "2",
        "nvidia-gpu": "true",
        "packages": "2",
        "rdma-gbps": "400",
        "rdma-link-layer": "InfiniBand",
        "rdma-ports": "8",
        "rdma-ports-per-zone": "2",
        "threads-per-core": "2",
        "zones": "4",
    }


def test_different_values_have_no_number() -> None:
    """Cores of two kinds have no common number of threads; zones without CPUs are counted separately."""
    assert own(hybrid())["hybrid"] == "true"
    assert "threads-per-core" not in own(hybrid())
    assert own(tiered_memory())["zones"] == "2"
    assert own(tiered_memory())["memory-zones"] == "3"


def test_the_worst_gpu_decides() -> None:
    """gpu-nic is the relation on which a job that gets any of the GPUs can rely."""
    machine = gpu_server()
    first = machine.gpus[0].address
    links = tuple(
        link._replace(relation="SYS") if first in (link.a, link.b) and link.relation == "PIX" else link
        for link in machine.links
    )
    assert own(machine._replace(links=links))["gpu-nic"] == "NODE"  # the Ethernet card and the next HCA of its zone


def test_a_gpu_of_unknown_zone_makes_the_count_per_zone_unknown() -> None:
    """One unknown zone makes the count per zone unknown."""
    first, *rest = gpu_server().gpus
    assert "gpus-per-zone" not in own(gpu_server()._replace(gpus=(first._replace(zone=None), *rest)))


def test_the_rate_is_that_of_the_gpus_nics() -> None:
    """A slower storage NIC does not lower the rate for jobs on GPUs; without GPUs, the slowest port counts."""
    machine = gpu_server()
    slow = machine.infiniband[0]
    port = slow.ports[0]._replace(rate_gbps=25.0, link_layer="Ethernet")
    storage = slow._replace(name="mlx5_storage", address="0000:02:00.0", ports=(port,))
    both = machine._replace(infiniband=(*machine.infiniband, storage))
    assert (own(both)["rdma-gbps"], own(both)["rdma-ports"]) == ("400", "9")
    assert own(both._replace(gpus=()))["rdma-gbps"] == "25"
    assert "rdma-link-layer" not in own(both._replace(gpus=()))


def test_gpus_of_each_model_and_zone() -> None:
    """Each model has a label in each zone with such GPUs; a GPU with unknown model or zone has none."""
    first, second, third, *_ = gpu_server().gpus
    gpus = (
        first._replace(model="NVIDIA RTX A6000", zone=0),
        second._replace(model="NVIDIA L40S", zone=0),
        third._replace(model="NVIDIA L40S", zone=None),
        first._replace(model=None, zone=0),
        first._replace(model="?!", zone=0),
        first._replace(model="X" * 70, zone=12),
    )
    labels = own(gpu_server()._replace(gpus=gpus))
    assert {name: value for name, value in labels.items() if name.startswith("gpus-of-zone")} == {
        "gpus-of-zone-0.NVIDIA-L40S": "1",
        "gpus-of-zone-0.NVIDIA-RTX-A6000": "1",
        f"gpus-of-zone-12.{'X' * 47}": "1",
    }


@given(any_machines())
def test_no_gpu_is_in_two_labels(machine: Machine) -> None:
    """The labels by model and zone add up to the GPUs for which both are known."""
    labels = own(machine)
    total = sum(int(value) for name, value in labels.items() if name.startswith("gpus-of-zone-"))
    assert total == sum(bool(sanitized_name(gpu.model or "")) and gpu.zone is not None for gpu in machine.gpus)


def test_ports_that_add_no_bandwidth_are_not_counted() -> None:
    """Software devices, even on a PCI function, and virtual functions share the ports of others."""
    machine = gpu_server()
    plain, first = own(machine), machine.infiniband[0]
    port = first.ports[0]._replace(rate_gbps=2.5, link_layer="Ethernet")
    virtual = "0000:99:00.1"
    slot = Slot("pci0000:99", (), 0)
    shown = machine._replace(
        pci=(*machine.pci, function(virtual, "0207", ("15b3", "101e"), slot, physical_function=first.address)),
        infiniband=(
            *machine.infiniband,
            first._replace(name="rxe0", address=None, zone=None, ports=(port,), software=True),
            first._replace(name="siw0", address="0000:02:00.0", zone=None, ports=(port,), software=True),
            first._replace(name="mlx5_9", address=virtual, zone=None, ports=(port,)),
        ),
    )
    assert own(shown) == plain
    assert own(shown._replace(gpus=())).get("rdma-gbps") == "400"
    software = [each for each in shown.infiniband if each.software]
    labels = own(shown._replace(gpus=(), infiniband=tuple(software)))
    assert not any(name.startswith("rdma") for name in labels)


@pytest.mark.parametrize(("software", "capable"), [(False, True), (True, False)])
def test_rdma_of_every_vendor(software: bool, capable: bool) -> None:
    """A device of a vendor that NFD's rule lacks has the label; a software device does not."""
    device = RdmaDevice("irdma0", None, 0, None, None, None, (), software=software)
    assert ("rdma.capable" in nfd(Machine(infiniband=(device,)))) == capable


def test_few_labels() -> None:
    """Every client watches labels, so a machine has only a few of zonewise's own, whatever its size."""
    assert len(own(big_machine())) < 20
