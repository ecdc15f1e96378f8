"""Which PCI functions are GPUs, and what /proc and NVML add to NVIDIA's GPUs."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.damage import DAMAGES, DELETE, Damage, Damaged
from support.gpus import DEVICES, GPUS, VERSION, GpuScan, LiveFiles, information, pci, proc_tree, zones
from support.nvml_results import stub_twin
from zonewise.machine.collector import NoData, Peek
from zonewise.machine.collectors.gpu.gpus import COLLECTOR, find_gpus
from zonewise.machine.discover import Scanner
from zonewise.machine.files import MemoryFiles
from zonewise.machine.model.host import Kernel
from zonewise.machine.model.machine import Machine
from zonewise.machine.nvml.child_process import FAILURE_INTERVAL, NvmlChild
from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu
from zonewise.machine.nvml.facts_json import CAPTURED, to_json
from zonewise.machine.nvml.queries import collect_nvml
from zonewise.machine.reader import Reader

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = "0000:3b:00.0", "10000:3b:00.0"


def driven(*addresses: str, **more: Any) -> list[Any]:
    """Return NVIDIA GPUs with their driver."""
    return [pci(address, driver="nvidia", **more) for address in addresses]


def nvml(*gpus: NvmlGpu, driver: str = "570.86.10") -> Any:
    """Return a query of NVML that lists these GPUs."""
    return lambda: NvmlFacts(driver_version=driver, gpus=gpus)


# --- which functions are GPUs


@pytest.mark.parametrize(
    ("vendor", "pci_class", "more", "discovered"),
    [
        ("10de", "0300", {}, "nvidia"),
        ("10de", "0302", {}, "nvidia"),
        ("1002", "0380", {}, "amd"),
        ("1002", "1200", {}, "amd"),
        ("8086", "0300", {}, "intel"),
        ("8086", "0380", {}, "intel"),
        ("10de", "0403", {}, None),  # the audio function of a GPU
        ("10de", "0680", {}, None),  # an NVSwitch
        ("8086", "1200", {"driver": "intel_vpu"}, None),  # an NPU
        ("1002", "0300", {"device": "515e"}, None),  # ES1000, part of a management controller
        ("1a03", "0300", {"driver": "ast"}, None),  # ASPEED
        ("102b", "0300", {"driver": "mgag200"}, None),  # Matrox
        ("1234", "0300", {"driver": "bochs-drm"}, None),  # QEMU
        ("1af4", "0380", {"driver": "virtio-pci"}, None),
        ("1414", "0300", {"driver": "hyperv_drm"}, None),
        ("15ad", "0300", {"driver": "vmwgfx"}, None),
        ("10de", "0302", {"driver": "vfio-pci"}, "nvidia"),
        (None, "0302", {"driver": "amdgpu"}, "amd"),  # the vendor file is damaged
        (None, "0302", {"driver": "vfio-pci"}, None),
        ("10de", None, {"driver": "nvidia"}, "nvidia"),  # the class file is damaged
        ("8086", None, {"driver": "e1000e"}, None),
    ],
)
def test_which_functions_are_gpus(
    vendor: str | None, pci_class: str | None, more: dict[str, str], discovered: str | None
) -> None:
    """Display controllers and processing accelerators of GPU makers are GPUs; devices for a console are not."""
    function = pci(FIRST, vendor or "", pci_class or "", **more)._replace(vendor=vendor, pci_class=pci_class)
    if discovered is None:
        with pytest.raises(NoData, match="no GPU"):
            GpuScan([function])
    else:
        assert [gpu.vendor for gpu in GpuScan([function]).gpus] == [discovered]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 255), st.sampled_from(["10de", "1002", "8086", "1a03"]), st.sampled_from(["03", "02"])
        ),
        unique_by=lambda each: each[0],
    )
)
def test_gpus_are_pci_functions_in_order(drawn: list[tuple[int, str, str]]) -> None:
    """Whatever is on the bus, each GPU is one of its functions, listed once in order of addresses, with its zone."""
    functions = [pci(f"0000:{bus:02x}:00.0", vendor, f"{base}02") for bus, vendor, base in drawn]
    expected = sorted(each.address for each in functions if each.vendor != "1a03" and each.pci_class == "0302")
    try:
        discovered = GpuScan(functions)
    except NoData:
        assert expected == []
        return
    assert [gpu.address for gpu in discovered.gpus] == expected
    assert {gpu.zone for gpu in discovered.gpus} == {0}
    assert discovered.machine.pci == tuple(functions)


def test_a_virtual_function_is_a_part_of_its_gpu() -> None:
    """On the host, a GPU shared by SR-IOV counts once; in a guest, its virtual function is the GPU."""
    whole, part = pci("0000:3b:00.0"), pci("0000:3b:02.0", physical_function="0000:3b:00.0")
    assert [gpu.address for gpu in GpuScan([whole, part]).gpus] == ["0000:3b:00.0"]
    assert [gpu.address for gpu in GpuScan([part._replace(physical_function=None)]).gpus] == ["0000:3b:02.0"]


def test_the_driver_implies_a_lost_vendor() -> None:
    """On a tree without vendor files, /proc/driver/nvidia lists the display controllers that are GPUs."""
    function = pci("0004:05:00.0")._replace(vendor=None, pci_class="0300", memory_zone=255)
    discovered = GpuScan([function], {f"{GPUS}/0004:05:00.0/numa_status": b"Node: 255\nStatus: online\n"})
    gpu = discovered.gpus[0]
    assert (gpu.vendor, gpu.driver, gpu.memory_zone) == ("nvidia", "nvidia", 255)
    assert discovered.problems == []


# --- without a driver


def test_gpus_without_a_driver_are_a_single_problem() -> None:
    """The GPUs are listed with their PCI facts; one line has the remedy for all of them."""
    discovered = GpuScan([pci(f"0000:{bus:02x}:00.0") for bus in range(8)])
    assert len(discovered.gpus) == 8
    (problem,) = discovered.problems
    assert problem.problem == (
        "8 nvidia GPUs (0000:00:00.0, 0000:01:00.0, 0000:02:00.0, ...) without a driver: load nvidia"
    )


def test_a_loaded_driver_without_the_gpu_is_named() -> None:
    """Loading the module again does not help, so the problem notes that it is loaded."""
    machine = Machine(kernel=Kernel("6.8", modules=("amdgpu",)))
    discovered = GpuScan([pci("0000:3b:00.0", "1002", "1200")], machine=machine)
    assert "amdgpu is loaded, but not bound to it" in discovered.problems[0].problem


@pytest.mark.parametrize(
    "function", [pci(FIRST, driver="vfio-pci"), pci(FIRST, "8086", "0300"), pci(FIRST, "1002", "0300")]
)
def test_a_gpu_may_have_no_driver_on_purpose(function: Any) -> None:
    """A GPU reserved for a virtual machine and the integrated graphics of a server processor are not a problem."""
    assert GpuScan([function]).problems == []


# --- /proc/driver/nvidia


def test_proc_describes_gpus_without_nvml() -> None:
    """Model, UUID, minor number and versions are known without NVML."""
    discovered = GpuScan(driven(FIRST), proc_tree(FIRST))
    gpu = discovered.gpus[0]
    assert (gpu.model, gpu.uuid, gpu.minor, gpu.vbios) == ("Stub S1", "GPU-0", 0, "96.00.30.00.01")
    assert (gpu.driver_version, gpu.firmware) == ("570.86.10", "570.86.10")
    assert (gpu.memory, gpu.mig, gpu.health, gpu.state) == (None, None, None, None)
    assert discovered.problems == []


@pytest.mark.parametrize(
    ("text", "version"),
    [
        (VERSION, "570.86.10"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build  (b)  Tue\n", "580.95.05"),
        ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.158  Release Build\n", "570.158"),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  384.81\n", "384.81"),
    ],
)
def test_the_version_of_the_kernel_module(text: str, version: str) -> None:
    """The closed and the open module print it at different positions."""
    tree = {"proc/driver/nvidia/version": text.encode()}
    assert GpuScan(driven(FIRST), {**tree}).gpus[0].driver_version == version


def test_an_unreadable_version_is_reported() -> None:
    """Noise in place of the version is a problem. If the file is absent, the module's own file replaces it."""
    discovered = GpuScan(driven(FIRST), {"proc/driver/nvidia/version": b"\xff\xfe\n"})
    assert discovered.gpus[0].driver_version is None
    assert discovered.said("contains no version")
    assert GpuScan(driven(FIRST), {"sys/module/nvidia/version": b"535.1.2\n"}).gpus[0].driver_version == "535.1.2"


def test_a_gpu_that_nothing_has_used_has_no_uuid_yet() -> None:
    """The driver prints question marks until it has initialised a GPU; the UUID is then unknown."""
    tree = proc_tree(FIRST)
    tree[f"{GPUS}/{FIRST}/information"] = information("GPU-????????-????-????-????-????????????", Video_BIOS="??.??.??")
    gpu = GpuScan(driven(FIRST), tree).gpus[0]
    assert (gpu.uuid, gpu.vbios, gpu.model) == (None, None, "Stub S1")


def test_lost_information_of_a_single_gpu_is_reported() -> None:
    """The driver prints the same lines for every GPU."""
    tree = proc_tree(FIRST, SECOND)
    del tree[f"{GPUS}/{FIRST}/information"]
    tree[f"{GPUS}/{FIRST}/power"] = b"\n"
    discovered = GpuScan(driven(FIRST, SECOND), tree)
    assert [gpu.uuid for gpu in discovered.gpus] == [None, "GPU-1"]
    assert discovered.said(FIRST)
    assert GpuScan(driven(FIRST), {f"{GPUS}/{FIRST}/information": b"\xff\xfe\n"}).said("is not information")


def test_only_whole_lines_of_a_truncated_file_count() -> None:
    """A truncated UUID is another UUID: the last line is ignored, and it and the rest are reported as lost."""
    tree = proc_tree(FIRST, SECOND)
    whole = tree[f"{GPUS}/{FIRST}/information"]
    assert isinstance(whole, bytes)
    tree[f"{GPUS}/{FIRST}/information"] = whole[: whole.index(b"GPU-0") + 4]
    discovered = GpuScan(driven(FIRST, SECOND), tree)
    assert (discovered.gpus[0].uuid, discovered.gpus[0].model) == (None, "Stub S1")
    assert discovered.said("is truncated")
    assert discovered.said("lacks Bus Type, Device Minor, GPU Excluded, GPU Firmware, GPU UUID, Video BIOS")
    tree["proc/driver/nvidia/version"] = VERSION.encode()[: VERSION.index("570") + 5]
    assert GpuScan(driven(FIRST), tree).gpus[0].driver_version is None


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_damage_to_files_of_the_driver(data: st.DataObject) -> None:
    """Whatever happens to its files: the same GPUs, no exception, nothing invented, and losses are reported."""
    facts = collect_nvml(stub_twin())
    tree = {**proc_tree(FIRST, SECOND), CAPTURED: to_json(facts).encode()}
    functions = tuple(driven(FIRST, SECOND))
    damages = data.draw(st.dictionaries(st.sampled_from(sorted(tree)), DAMAGES, min_size=1, max_size=3))
    read = Reader(Damaged(MemoryFiles(tree.items()), damages))
    machine = find_gpus(read, Machine(pci=functions, zones=zones("0-3", "4-7")), lambda: pytest.fail("asked"))
    whole = GpuScan(functions, tree)
    assert [gpu.address for gpu in machine.gpus] == [FIRST, SECOND]
    for gpu, before in zip(machine.gpus, whole.gpus, strict=True):
        for field in ("uuid", "model", "memory", "minor", "mig", "fabric", "health", "driver_version"):
            value = getattr(gpu, field)
            is_deleted = damages.get(CAPTURED, Damage("")).kind == DELETE  # as if NVML had never been captured
            assert value is not None or getattr(before, field) is None or read.problems or is_deleted
            if field in ("memory", "mig", "fabric", "health"):
                assert value in (None, getattr(before, field))


# --- when NVML is called


def test_nvml_is_called_on_the_running_machine_only() -> None:
    """The GPUs of the local machine must not describe the GPUs of a snapshot."""
    assert GpuScan(driven(FIRST)).gpus[0].uuid is None
    assert GpuScan(driven(FIRST), {}, nvml(NvmlGpu(0, FIRST, "GPU-9"))).gpus[0].uuid == "GPU-9"


@pytest.mark.parametrize("driver", [None, "vfio-pci", "nouveau"])
def test_nvml_is_not_called_without_its_driver(driver: str | None) -> None:
    """If nvidia drives no GPU, the library could only fail, so it is not called."""

    def query_nvml() -> NvmlFacts:
        raise AssertionError("asked")

    assert GpuScan([pci(FIRST, driver=driver)], {}, query_nvml).gpus[0].driver == driver
    assert GpuScan([pci(FIRST, "1002", "1200", driver="amdgpu")], {}, query_nvml).gpus[0].vendor == "amd"


def test_a_failure_of_nvml_is_a_single_problem() -> None:
    """The GPUs have the facts of PCI and /proc; one line gives the reason why NVML's are missing."""
    discovered = GpuScan(
        driven(FIRST), proc_tree(FIRST), lambda: NvmlFacts(problem="NVML cannot be used: library not found")
    )
    assert discovered.gpus[0].uuid == "GPU-0"
    (problem,) = discovered.problems
    assert (problem.path, problem.problem) == ("/dev/nvidiactl", "NVML cannot be used: library not found")


def test_gpus_that_cannot_be_counted_are_not_lost() -> None:
    """If NVML fails to count GPUs, nothing follows for the individual GPUs."""
    discovered = GpuScan(driven(FIRST), {}, lambda: NvmlFacts(absent={"gpus": "unknown error"}))
    assert discovered.gpus[0].state is None
    assert discovered.said("does not report the number of GPUs: unknown error")


def test_a_capture_replays_nvml() -> None:
    """A capture contains NVML's facts and has the same GPUs as the machine."""
    facts = collect_nvml(stub_twin())
    live = GpuScan(driven(FIRST, SECOND), {}, lambda: facts)
    replayed = GpuScan(driven(FIRST, SECOND), {CAPTURED: to_json(facts).encode()})
    assert replayed.gpus == live.gpus
    assert replayed.sources[f"gpus.{FIRST}.uuid"].file == f"/{CAPTURED}"
    assert live.sources[f"gpus.{FIRST}.uuid"].file == "/dev/nvidiactl"


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff", b"[]", b'{"gpus":[{}]}', b'{"gpus":[{"place":"0"}]}', b"[" * 9999]
)
def test_a_damaged_replay_is_reported_and_unused(content: bytes) -> None:
    """A part of the facts could mislead, so PCI and /proc are used."""
    discovered = GpuScan(driven(FIRST), {CAPTURED: content})
    assert discovered.said("is incomplete")
    assert discovered.gpus[0].uuid is None


def test_a_replay_of_a_problem_is_a_problem() -> None:
    """A capture of a machine on which NVML failed reports the same problem."""
    discovered = GpuScan(driven(FIRST), {CAPTURED: to_json(NvmlFacts(problem="did not answer")).encode()})
    assert discovered.said("did not answer")


# --- GPUs on which NVML and the system disagree


def test_a_gpu_that_nvml_does_not_list_is_lost() -> None:
    """The driver lists it on the bus but can no longer reach it."""
    discovered = GpuScan(driven(FIRST, SECOND), proc_tree(FIRST, SECOND), nvml(NvmlGpu(0, FIRST, "GPU-0")))
    assert [gpu.state for gpu in discovered.gpus] == [None, "lost"]
    assert discovered.gpus[1].uuid == "GPU-1"
    assert [problem.path for problem in discovered.problems] == [f"/{DEVICES}/{SECOND}"]


def test_a_gpu_that_nvml_calls_lost_is_lost() -> None:
    """It has its address and location; the failed query is in its health and among the problems."""
    fake = stub_twin()
    fake.lost.add(1)
    fake.gpus[1].results["nvmlDeviceGetPciInfo"] = "00010000:3B:00.0"
    discovered = GpuScan(driven(FIRST, SECOND), proc_tree(FIRST, SECOND), lambda: collect_nvml(fake))
    assert [gpu.state for gpu in discovered.gpus] == [None, "lost"]
    assert discovered.said(SECOND)


def test_a_gpu_is_matched_by_uuid_if_nvml_has_no_address() -> None:
    """If NVML has no address, the UUID that the driver prints identifies the GPU."""
    nvml_gpu = NvmlGpu(0, None, "GPU-0", "Stub S1", lost=True, faults=("nvmlDeviceGetPciInfo: GPU is lost",))
    discovered = GpuScan(driven(FIRST), proc_tree(FIRST), nvml(nvml_gpu))
    assert [gpu.state for gpu in discovered.gpus] == ["lost"]
    assert discovered.gpus[0].health is not None
    assert discovered.gpus[0].health.faults == nvml_gpu.faults


def test_an_excluded_gpu_is_not_lost() -> None:
    """NVML omits GPUs that the driver's settings exclude."""
    tree = proc_tree(FIRST)
    tree[f"{GPUS}/{FIRST}/information"] = information(GPU_Excluded="Yes")
    discovered = GpuScan(driven(FIRST), tree, nvml())
    assert (discovered.gpus[0].state, discovered.problems) == ("excluded", [])


def test_a_gpu_hidden_from_this_container_is_not_lost() -> None:
    """A container may have only some GPUs: the driver's files, or the device files, are only those of these GPUs."""
    nvml_gpu = nvml(NvmlGpu(0, FIRST, "GPU-0"))
    by_files = GpuScan(driven(FIRST, SECOND), proc_tree(FIRST), nvml_gpu)
    tree = {**proc_tree(FIRST, SECOND), "dev/nvidia0": b"", "dev/nvidiactl": b""}
    by_devices = GpuScan(driven(FIRST, SECOND), tree, nvml_gpu)
    for discovered in (by_files, by_devices):
        assert [gpu.state for gpu in discovered.gpus] == [None, "hidden"]
        assert discovered.problems == []


def test_a_gpu_that_only_nvml_lists_is_added() -> None:
    """The driver lists only existing GPUs, so its absence from PCI is a problem."""
    discovered = GpuScan(driven(FIRST), {}, nvml(NvmlGpu(0, FIRST, "GPU-0"), NvmlGpu(1, SECOND, "GPU-1")))
    assert [(gpu.address, gpu.uuid) for gpu in discovered.gpus] == [(FIRST, "GPU-0"), (SECOND, "GPU-1")]
    assert discovered.said("PCI does not")


def test_versions_that_contradict_are_reported() -> None:
    """A library with another version than the loaded driver indicates a mixture of two installations."""
    assert GpuScan(driven(FIRST), proc_tree(FIRST), nvml(NvmlGpu(0, FIRST), driver="580.1.1")).said("580.1.1")


# --- the zone


def test_nvml_has_a_zone_that_the_kernel_lacks() -> None:
    """Firmware that gives the kernel no zone may give one to the driver; the GPU and its PCI function both get it."""
    discovered = GpuScan(driven(FIRST, zone=None), {}, nvml(NvmlGpu(0, FIRST, memory_affinity=(1,))))
    assert discovered.gpus[0].zone == 1
    assert (discovered.machine.pci[0].zone, discovered.machine.pci[0].zone_source) == (1, "nvml")
    assert "nvmlDeviceGetMemoryAffinity" in discovered.sources[f"gpus.{FIRST}.zone"].rule


@pytest.mark.parametrize("affinity", [None, (), (0, 1), (5,)])
def test_an_unknown_zone_remains_unknown(affinity: tuple[int, ...] | None) -> None:
    """In a flat virtual machine, NVML lists all zones or none. No zone is guessed, and no missing zone is used."""
    discovered = GpuScan(driven(FIRST, zone=None), {}, nvml(NvmlGpu(0, FIRST, memory_affinity=affinity)))
    assert (discovered.gpus[0].zone, discovered.machine.pci[0].zone_source) == (None, None)


def test_nvml_does_not_overrule_the_kernel() -> None:
    """A known zone is not changed."""
    discovered = GpuScan(driven(FIRST, zone=0), {}, nvml(NvmlGpu(0, FIRST, memory_affinity=(1,))))
    assert (discovered.gpus[0].zone, discovered.machine.pci[0].zone_source) == (0, "numa_node")


def test_the_zone_of_its_own_memory_has_no_cpus() -> None:
    """NVML's NUMA node id is the GPU's own memory; it applies if the kernel has such a zone."""
    machine = Machine(zones=zones("0-3", "4-7", ""))
    for node, expected in ((2, 2), (0, None), (9, None)):
        discovered = GpuScan(driven(FIRST), {}, nvml(NvmlGpu(0, FIRST, numa_node=node)), machine=machine)
        assert (discovered.gpus[0].memory_zone, discovered.gpus[0].zone) == (expected, 0)


# --- provenance and rescans


def test_every_known_fact_has_a_source() -> None:
    """Each fact of each GPU has a source, its own or its parent's: a file or a query."""
    discovered = GpuScan(driven(FIRST, SECOND), proc_tree(FIRST, SECOND), lambda: collect_nvml(stub_twin()))
    for gpu in discovered.gpus:
        known = [name for name, value in gpu._asdict().items() if value not in (None, ())]
        own = [name for name in known if f"gpus.{gpu.address}.{name}" in discovered.sources]
        assert f"gpus.{gpu.address}" in discovered.sources
        assert set(known) - set(own) == {"address", "vendor", "driver"}


def test_an_unknown_fact_has_an_explanation() -> None:
    """The explanation is NVML's own reason."""
    discovered = GpuScan(driven(FIRST, SECOND), {}, lambda: collect_nvml(stub_twin()))
    assert discovered.sources[f"gpus.{FIRST}.board"].rule == "NVML nvmlDeviceGetBoardPartNumber: function not found"
    assert discovered.sources[f"gpus.{SECOND}.mig"].rule == "NVML nvmlDeviceGetMigMode: not supported"


@pytest.mark.parametrize(
    "change",
    [
        {"proc/driver/nvidia/version": b"other\n"},
        {f"{GPUS}/{SECOND}/information": b"Model: x\n"},
        {"proc/driver/nvidia/capabilities/gpu0/mig/gi7/ci0/access": b"\n"},
        {"proc/driver/nvidia/capabilities/gpu0/mig/gi3/access": b"\n"},
        {CAPTURED: b"{}"},
        {"sys/class/kfd/kfd/topology/generation_id": b"2\n"},
        {"sys/class/drm/card7": None},
    ],
    ids=str,
)
def test_changes_are_noticed(change: dict[str, Any]) -> None:
    """Another driver, GPU, MIG instance or partition causes the collector to run again; nothing else does."""
    tree = {
        **proc_tree(FIRST),
        "proc/driver/nvidia/capabilities/gpu0/mig/gi7/access": b"\n",
        "sys/class/kfd/kfd/topology/generation_id": b"1\n",
    }
    before = COLLECTOR.volatile(Peek(MemoryFiles(tree.items())))
    assert COLLECTOR.volatile(Peek(MemoryFiles(tree.items()))) == before
    assert COLLECTOR.volatile(Peek(MemoryFiles({**tree, **change}.items()))) != before


def test_the_collector_queries_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discovery uses the only NVML child process, and queries it again only after it has failed to respond."""
    queries: list[int] = []

    class Child:
        attempt: tuple[int, bool] = (0, False)

        def query(self) -> NvmlFacts:
            queries.append(1)
            return NvmlFacts(problem="the nvidia driver did not respond within 10 s")

    child = Child()
    monkeypatch.setattr("zonewise.machine.collectors.gpu.gpus.CHILD", child)
    files = LiveFiles(
        [(f"{DEVICES}/{FIRST}/{name}", value) for name, value in (("class", b"0x030200\n"), ("vendor", b"0x10de\n"))]
        + [(f"{DEVICES}/{FIRST}/driver", "../../../../bus/pci/drivers/nvidia")]
    )
    scanner = Scanner(files)
    assert [gpu.driver for gpu in scanner.scan().machine.gpus] == ["nvidia"]
    assert scanner.scan().machine.gpus[0].uuid is None
    assert len(queries) == 1
    child.attempt = (1, False)
    scanner.scan()
    assert len(queries) == 2


@pytest.mark.parametrize("lost", [(NvmlGpu(0, FIRST, "GPU-0", lost=True),), ()])
def test_a_lost_gpu_is_noticed_when_it_is_back(
    lost: tuple[NvmlGpu, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A reset brings a GPU back, whether NVML called it lost or did not list it."""
    output, now = tmp_path / "facts", [0.0]
    child = NvmlChild(["cat", str(output)], clock=lambda: now[0])
    monkeypatch.setattr("zonewise.machine.collectors.gpu.gpus.CHILD", child)
    names = {"class": b"0x030200\n", "vendor": b"0x10de\n", "driver": "../../../../bus/pci/drivers/nvidia"}
    files = LiveFiles([*proc_tree(FIRST).items(), *((f"{DEVICES}/{FIRST}/{name}", names[name]) for name in names)])
    scanner = Scanner(files)
    output.write_text(to_json(NvmlFacts(driver_version="570.86.10", gpus=lost)))
    assert [gpu.state for gpu in scanner.scan().machine.gpus] == ["lost"]
    output.write_text(to_json(NvmlFacts(driver_version="570.86.10", gpus=(NvmlGpu(0, FIRST, "GPU-0"),))))
    now[0] += FAILURE_INTERVAL
    assert [gpu.state for gpu in scanner.scan().machine.gpus] == [None]


def test_discovery_imports_nothing_that_it_may_not_need() -> None:
    """Most machines have no NVIDIA GPU, so neither the NVML package, nor subprocess, nor JSON is imported."""
    code = "import sys, zonewise.machine.discover; print(*({'pynvml', 'subprocess', 'json'} & set(sys.modules)))"
    completed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300)
    assert completed.stdout.split() == []
