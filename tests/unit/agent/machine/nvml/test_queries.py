"""Queries of NVML: each fact separately, each failure with its reason, and no further query of a lost GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.nvml_results import stub_twin
from zonewise.machine.nvml import backend
from zonewise.machine.nvml.backend import NvmlError
from zonewise.machine.nvml.facts import NvmlGpu, NvmlLink
from zonewise.machine.nvml.queries import FLAGS, MAX_LINKS, NUMBERS, TEXTS, TUPLES, collect_nvml, sysfs_address
from zonewise_sandbox.nvml import NvmlDevice, SimulatedNvml

FIRST = "00000000:3B:00.0"
CALLS = {
    **TEXTS,
    **FLAGS,
    **{fact: call for fact, (call, *_) in NUMBERS.items()},
    **{fact: call for fact, (call, _) in TUPLES.items()},
}
ERRORS = [*range(1, 31), 999, 12345]


def collect_single(**results: Any) -> NvmlGpu:
    """Return the facts of a GPU that has only these results."""
    fake = SimulatedNvml([NvmlDevice({f"nvmlDeviceGet{name}": value for name, value in results.items()})], {})
    return collect_nvml(fake).gpus[0]


@pytest.mark.parametrize(
    "code", [backend.NOT_SUPPORTED, backend.FUNCTION_NOT_FOUND, backend.NO_PERMISSION, backend.NOT_FOUND]
)
def test_an_unsupported_fact_is_absent_with_its_reason(code: int) -> None:
    """A GPU, driver, library or caller without such a fact is normal, not a fault."""
    gpu = collect_single(UUID=NvmlError(code), Name="GPU")
    assert (gpu.uuid, gpu.name, gpu.faults) == (None, "GPU", ())
    assert gpu.absent["uuid"] == str(NvmlError(code))


@pytest.mark.parametrize("code", [backend.UNKNOWN, 16, 10, 14, 17, 20, 12345])
def test_a_failed_query_is_a_fault(code: int) -> None:
    """A GPU that requires a reset, or an error unknown to NVML, is reported with the query; the rest is queried."""
    gpu = collect_single(UUID=NvmlError(code), Name="GPU", PcieReplayCounter=7)
    assert gpu.faults == (f"nvmlDeviceGetUUID: {NvmlError(code)}",)
    assert (gpu.uuid, gpu.name, gpu.pcie_replays, gpu.lost) == (None, "GPU", 7, False)


def test_a_lost_gpu_gets_no_further_query() -> None:
    """Each further query could fail slowly; earlier facts remain."""
    fake = stub_twin()
    fake.gpus[0].results["nvmlDeviceGetName"] = NvmlError(backend.GPU_IS_LOST)
    gpu, second = collect_nvml(fake).gpus
    assert gpu.lost
    assert (gpu.address, gpu.uuid) == ("0000:3b:00.0", "GPU-00000000-0000-0000-0000-000000000000")
    assert gpu.faults == ("nvmlDeviceGetName: GPU is lost",)
    assert second == collect_nvml(stub_twin()).gpus[1]
    calls = [question[0] for question in fake.calls]
    assert calls[calls.index("nvmlDeviceGetName") + 1] == "nvmlDeviceGetHandleByIndex"


@given(st.dictionaries(st.sampled_from(sorted(CALLS)), st.sampled_from(ERRORS)))
def test_no_error_affects_another_fact(errors: dict[str, int]) -> None:
    """Whichever queries fail, all others have their usual results, and every failure has its reason."""
    fake = stub_twin()
    whole = collect_nvml(stub_twin()).gpus[0]
    for fact, code in errors.items():
        for key in [key for key in fake.gpus[0].results if CALLS[fact] in (key, key[0])]:
            fake.gpus[0].results[key] = NvmlError(code)
    gpu = collect_nvml(fake).gpus[0]
    if gpu.lost:
        assert backend.GPU_IS_LOST in errors.values()
        return
    unsupported = {fact for fact, call in CALLS.items() if call in {CALLS[collect_single] for collect_single in errors}}
    for field in gpu._fields:
        if field in unsupported:
            assert getattr(gpu, field) is None
            assert gpu.absent[field]
        elif field not in ("absent", "faults", "mig_devices"):
            assert getattr(gpu, field) == getattr(whole, field)


@pytest.mark.parametrize("result", ["", 7, (1, 2), None, b"x", [1]])
def test_a_result_of_the_wrong_type_is_unknown(result: Any) -> None:
    """A number instead of a text, or an empty text, is unknown and raises no exception."""
    assert collect_single(UUID=result).uuid is None


@pytest.mark.parametrize("result", ["x", (1,), (1, 2, 3), ("a", "b"), 5])
def test_a_tuple_of_the_wrong_shape_is_unknown(result: Any) -> None:
    """The result must have exactly two numbers."""
    gpu = collect_single(CudaComputeCapability=result)
    assert gpu.compute_capability is None
    assert "answered with" in gpu.absent["compute_capability"]


# --- addresses


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:53:00.0", "0000:53:00.0"),
        ("00000008:06:00.0", "0008:06:00.0"),
        ("00010000:3B:1F.7", "10000:3b:1f.7"),
        ("FFFFFFFF:FF:FF.0", None),
        ("00000000:00:00.0", None),
        ("0000:53:00.0", "0000:53:00.0"),
        ("", None),
        (None, None),
        ("garbage", None),
    ],
)
def test_addresses_have_the_format_of_sysfs(bus_id: str | None, address: str | None) -> None:
    """Addresses are in lower case, with at least 4 digits of the domain; without an endpoint there is no address."""
    assert sysfs_address(bus_id) == address


@given(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), st.integers(0, 31))
def test_every_address_is_converted(domain: int, bus: int, device: int) -> None:
    """NVML's format and the kernel's name the same function."""
    if domain or bus or device:
        assert sysfs_address(f"{domain:08X}:{bus:02X}:{device:02X}.0") == f"{domain:04x}:{bus:02x}:{device:02x}.0"


# --- facts that need several queries


def test_links_end_at_the_first_invalid_number() -> None:
    """Links that are not wired are skipped; the number after the last one ends the search."""
    results: dict[Any, Any] = {("nvmlDeviceGetNvLinkState", 2): 1, ("nvmlDeviceGetNvLinkState", 4): 0}
    results["nvmlDeviceGetNvLinkState", 5] = NvmlError(backend.INVALID_ARGUMENT)
    fake = SimulatedNvml([NvmlDevice(results)], {})
    gpu = collect_nvml(fake).gpus[0]
    assert gpu.links == (NvmlLink(2, active=True), NvmlLink(4, active=False))
    assert "links" not in gpu.absent
    assert ("nvmlDeviceGetNvLinkState", "6") not in fake.calls


def test_a_gpu_without_links() -> None:
    """If all 36 links are unsupported, there is no NVLink, and the search is bounded."""
    fake = SimulatedNvml([NvmlDevice({})], {})
    gpu = collect_nvml(fake).gpus[0]
    assert (gpu.links, gpu.absent["links"]) == ((), "not supported")
    assert sum(question[0] == "nvmlDeviceGetNvLinkState" for question in fake.calls) == MAX_LINKS


def test_mig_devices_may_have_gaps_between_them() -> None:
    """All indexes are searched, since a device that was destroyed leaves a gap."""
    devices = collect_nvml(stub_twin()).gpus[0].mig_devices
    assert [device.gpu_instance for device in devices] == [7, 9]
    assert devices[0].memory == 9856 << 20


def test_mig_is_not_searched_if_it_is_disabled() -> None:
    """The mode shows that no device exists."""
    fake = stub_twin()
    fake.gpus[0].results["nvmlDeviceGetMigMode"] = (0, 1)
    gpu = collect_nvml(fake).gpus[0]
    assert (gpu.mig_mode, gpu.mig_devices) == ((0, 1), ())
    assert ("nvmlDeviceGetMaxMigDeviceCount",) not in fake.calls


def test_the_memory_affinity_is_a_set_of_nodes() -> None:
    """The bits of 64-bit words are node numbers."""
    assert collect_single(MemoryAffinity=(0b101, *[0] * 14, 1 << 63)).memory_affinity == (0, 2, 1023)
    assert collect_single(MemoryAffinity=(0,) * 16).memory_affinity == ()


@pytest.mark.parametrize(
    "result", ["x", ("00", 0, 0, 3), ("f" * 32, 0, 0), ("f" * 32, "0", 0, 3), ("f" * 32, 0, 0, 3, 1, 1, 1)]
)
def test_a_fabric_of_the_wrong_shape_is_unknown(result: Any) -> None:
    """Any result other than the fields of the struct is unknown."""
    gpu = collect_single(GpuFabricInfo=result)
    assert gpu.fabric is None
    assert gpu.absent["fabric"]


# --- the system


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (backend.LIBRARY_NOT_FOUND, "mount the driver's libraries"),
        (backend.DRIVER_NOT_LOADED, "load the kernel module nvidia"),
        (backend.LIB_RM_VERSION_MISMATCH, "reload the module or reboot"),
        (backend.UNKNOWN, ""),
    ],
)
def test_a_library_that_does_not_start_is_a_single_problem(code: int, remedy: str) -> None:
    """One line has the error and the remedy, and nothing is read."""
    fake = SimulatedNvml([], {}, start=NvmlError(code))
    facts = collect_nvml(fake)
    assert (facts.problem or "").startswith(f"NVML cannot be used: {NvmlError(code)}")
    assert remedy in (facts.problem or "")
    assert (facts.gpus, fake.calls) == ((), [])


@pytest.mark.parametrize("count", [0, -5, 1 << 31])
def test_a_count_is_bounded(count: int) -> None:
    """A wrong number of GPUs does not size a loop."""
    device = NvmlDevice({"nvmlDeviceGetUUID": NvmlError(backend.GPU_IS_LOST)})
    facts = collect_nvml(SimulatedNvml([device] * 256, {"nvmlDeviceGetCount": count}))
    assert len(facts.gpus) == max(0, min(count, 256))


def test_no_gpus_if_they_cannot_be_counted() -> None:
    """The reason is recorded, since the GPUs are unknown, not absent."""
    facts = collect_nvml(SimulatedNvml([NvmlDevice({})], {"nvmlDeviceGetCount": NvmlError(backend.UNKNOWN)}))
    assert (facts.gpus, facts.absent["gpus"]) == ((), "unknown error")
    assert facts.faults == ("nvmlDeviceGetCount: unknown error",)


def test_the_nvlink_errors_are_unknown_while_one_count_cannot_be_read() -> None:
    """The sum of the other counts would look like a reset, and the next sum like new errors."""
    fake = stub_twin()
    results = fake.gpus[0].results
    results["nvmlDeviceGetFieldValues", 38] = 1000
    results["nvmlDeviceGetFieldValues", 52] = NvmlError(backend.NOT_SUPPORTED)
    whole = collect_nvml(fake).gpus[0].nvlink_errors
    assert whole is not None
    assert whole >= 1000
    results["nvmlDeviceGetFieldValues", 38] = NvmlError(backend.UNKNOWN)
    gpu = collect_nvml(fake).gpus[0]
    assert gpu.nvlink_errors is None
    assert "nvlink_errors" in gpu.absent
    del results["nvmlDeviceGetFieldValues", 38]
    results["nvmlDeviceGetFieldValues", 45] = NvmlError(backend.GPU_IS_LOST)
    assert collect_nvml(fake).gpus[0].nvlink_errors is None
