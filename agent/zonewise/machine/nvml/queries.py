"""Queries all facts of NVML, one at a time, so that no failure affects another fact.

If NVML does not support a query, its fact is None and the reason is in `absent`. A query that fails with an error of
the GPU is a fault as well. Once a GPU is lost, no further query is made on it: each would only fail, and some of them
slowly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from zonewise.machine.nvml.backend import (
    DRIVER_NOT_LOADED,
    GPU_IS_LOST,
    INVALID_ARGUMENT,
    LIB_RM_VERSION_MISMATCH,
    LIBRARY_NOT_FOUND,
    NvmlBackend,
    NvmlError,
)
from zonewise.machine.nvml.facts import NvmlFabric, NvmlFacts, NvmlGpu, NvmlLink, NvmlMigDevice
from zonewise.machine.sysfs import is_pci_address

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINKS = 36  # NVML_NVLINK_MAX_LINKS
_MAX_GPUS = 256  # far more than any machine has; bounds the loop if the count is wrong
_MAX_MIG_DEVICES = 64  # 7 GPU instances of at most 7 compute instances each
_NODE_WORDS = 16  # CONFIG_NODES_SHIFT is 10 at most, which is 1024 nodes
_MIB = 1 << 20
_RECOVERY_ACTION = 230  # NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
_NVLINK_ERRORS = (38, 45, 52, 59)
"""NVML_FI_DEV_NVLINK_{CRC_FLIT,CRC_DATA,REPLAY,RECOVERY}_ERROR_COUNT_TOTAL."""
_SCOPE_NODE = 0  # NVML_AFFINITY_SCOPE_NODE
_FABRIC_VERSIONS = (3, 2)  # versions of nvmlGpuFabricInfoV_t, newest first; the older struct has its own call

REMEDIES = {
    LIBRARY_NOT_FOUND: "mount the driver's libraries into the container (runtime class nvidia), or set LD_LIBRARY_PATH "
    "to their directory",
    DRIVER_NOT_LOADED: "load the kernel module nvidia, and give the container /dev/nvidiactl and /dev/nvidia*",
    LIB_RM_VERSION_MISMATCH: "the driver was upgraded under a running kernel module: reload the module or reboot",
}

TEXTS = {
    "uuid": "nvmlDeviceGetUUID",
    "name": "nvmlDeviceGetName",
    "vbios": "nvmlDeviceGetVbiosVersion",
    "firmware": "nvmlDeviceGetGspFirmwareVersion",
    "board": "nvmlDeviceGetBoardPartNumber",
}
NUMBERS = {
    "architecture": ("nvmlDeviceGetArchitecture",),
    "memory": ("nvmlDeviceGetMemoryInfo",),
    "minor": ("nvmlDeviceGetMinorNumber",),
    "module_id": ("nvmlDeviceGetModuleId",),
    "virtualization": ("nvmlDeviceGetVirtualizationMode",),
    "addressing": ("nvmlDeviceGetAddressingMode",),
    "numa_node": ("nvmlDeviceGetNumaNodeId",),
    # error types are 0 corrected, 1 uncorrected; counters are 0 volatile, 1 aggregate
    "ecc_corrected": ("nvmlDeviceGetTotalEccErrors", 0, 0),
    "ecc_uncorrected": ("nvmlDeviceGetTotalEccErrors", 1, 0),
    "ecc_lifetime_corrected": ("nvmlDeviceGetTotalEccErrors", 0, 1),
    "ecc_lifetime_uncorrected": ("nvmlDeviceGetTotalEccErrors", 1, 1),
    "clocks_event_reasons": ("nvmlDeviceGetCurrentClocksEventReasons",),
    "recovery_action": ("nvmlDeviceGetFieldValues", _RECOVERY_ACTION),
    "pcie_replays": ("nvmlDeviceGetPcieReplayCounter",),
}
FLAGS = {
    "persistence": "nvmlDeviceGetPersistenceMode",
    "retired_pages_pending": "nvmlDeviceGetRetiredPagesPendingStatus",
}
TUPLES = {
    "compute_capability": ("nvmlDeviceGetCudaComputeCapability", 2),
    "remapped_rows": ("nvmlDeviceGetRemappedRows", 4),
    "mig_mode": ("nvmlDeviceGetMigMode", 2),
}
_MIG_TEXTS = {"uuid": "nvmlDeviceGetUUID", "name": "nvmlDeviceGetName"}
_MIG_NUMBERS = {"gpu_instance": "nvmlDeviceGetGpuInstanceId", "compute_instance": "nvmlDeviceGetComputeInstanceId"}
_MIG_ATTRIBUTES = (
    "multiprocessors",
    "copy_engines",
    "decoders",
    "encoders",
    "jpeg_engines",
    "ofa_engines",
    "gpu_slices",
    "compute_slices",
)
"""The fields of nvmlDeviceAttributes_t in their order; the ninth is memorySizeMB."""


class _Queries:
    """Runs queries and records the reason for each unknown fact."""

    def __init__(self, backend: NvmlBackend) -> None:
        self._backend = backend
        self.absent: dict[str, str] = {}
        self.faults: list[str] = []
        self.lost = False
        self.last_error: NvmlError | None = None
        """The error of the last query, None if it succeeded."""

    def query(self, fact: str, call: str, *arguments: object) -> object | None:
        """Return the result, or None with the reason recorded under the fact's name."""
        if self.lost:
            self.absent[fact] = "not queried, because the GPU is lost"
            return None
        try:
            value = self._backend.call(call, *arguments)
        except NvmlError as error:
            self.last_error = error
            self.absent[fact] = str(error)
            self.lost = error.code == GPU_IS_LOST
            if not error.is_absence:
                self.faults.append(f"{call}: {error}")
            return None
        self.last_error = None
        return value

    def text(self, fact: str, call: str, *arguments: object) -> str | None:
        """Return a text; None also for an empty one."""
        value = self.query(fact, call, *arguments)
        return value if isinstance(value, str) and value else self.unusable(fact, value)

    def number(self, fact: str, call: str, *arguments: object) -> int | None:
        """Return a number; None if NVML returns anything else."""
        value = self.query(fact, call, *arguments)
        return value if isinstance(value, int) else self.unusable(fact, value)

    def numbers(self, fact: str, length: int, call: str, *arguments: object) -> tuple[int, ...] | None:
        """Return `length` numbers; None if NVML returns anything else."""
        value = self.query(fact, call, *arguments)
        parts = [part for part in _parts(value) if isinstance(part, int)]
        return tuple(parts) if len(parts) == len(_parts(value)) == length else self.unusable(fact, value)

    def unusable(self, fact: str, value: object) -> None:
        """Record that a result has the wrong type."""
        if value is not None:
            self.absent[fact] = f"answered with {str(value)[:60]!r}"


def collect_nvml(backend: NvmlBackend) -> NvmlFacts:
    """Return all facts of NVML. Never raises an NVML error: an unsupported fact is absent, with the reason."""
    try:
        backend.start()
    except NvmlError as error:
        remedy = REMEDIES.get(error.code)
        return NvmlFacts(problem=f"NVML cannot be used: {error}" + (f"; {remedy}" if remedy else ""))
    questions = _Queries(backend)
    driver = questions.text("driver_version", "nvmlSystemGetDriverVersion")
    library = questions.text("library_version", "nvmlSystemGetNVMLVersion")
    cuda = questions.number("cuda_version", "nvmlSystemGetCudaDriverVersion")
    count = questions.number("gpus", "nvmlDeviceGetCount") or 0
    gpus = tuple(_gpu(backend, index) for index in range(min(count, _MAX_GPUS)))
    return NvmlFacts(None, driver, library, cuda, gpus, questions.absent, tuple(questions.faults))


def _gpu(backend: NvmlBackend, index: int) -> NvmlGpu:
    questions = _Queries(backend)
    handle = questions.query("address", "nvmlDeviceGetHandleByIndex", index)
    if handle is None:
        return NvmlGpu(index, absent=questions.absent, faults=tuple(questions.faults), lost=questions.lost)
    # the address comes first: only the address identifies a GPU that is lost during the queries
    known: dict[str, Any] = {
        "address": sysfs_address(questions.text("address", "nvmlDeviceGetPciInfo", handle)),
        **{fact: questions.text(fact, call, handle) for fact, call in TEXTS.items()},
        **{fact: questions.number(fact, call, handle, *rest) for fact, (call, *rest) in NUMBERS.items()},
        **{fact: _flag(questions.number(fact, call, handle)) for fact, call in FLAGS.items()},
        **{fact: questions.numbers(fact, length, call, handle) for fact, (call, length) in TUPLES.items()},
    }
    ecc = questions.numbers("ecc_enabled", 2, "nvmlDeviceGetEccMode", handle)
    known["ecc_enabled"] = _flag(ecc[0] if ecc else None)
    known["memory_affinity"] = _affinity(questions, handle)
    known["fabric"] = _fabric(questions, handle)
    known["links"] = tuple(_links(questions, handle))
    if known["links"]:
        questions.absent.pop("links", None)  # the reason why the list of links ends
        known["nvlink_errors"] = _link_errors(questions, handle)
    else:
        questions.absent["nvlink_errors"] = "no NVLink"
    if known["mig_mode"] and known["mig_mode"][0]:
        known["mig_devices"] = tuple(_mig_devices(backend, questions, handle))
    return NvmlGpu(index, **known, absent=questions.absent, faults=tuple(questions.faults), lost=questions.lost)


def _parts(value: object) -> tuple[object, ...]:
    return cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()


def _flag(number: int | None) -> bool | None:
    return None if number is None else bool(number)


def sysfs_address(bus_id: str | None) -> str | None:
    """Return NVML's "00000000:3B:00.0" in sysfs notation; None for text that is not the address of an endpoint.

    In a guest the far end of an NVLink may be FFFFFFFF:FF:FF.0, or all zeros.
    """
    domain, _, rest = (bus_id or "").lower().partition(":")
    address = f"{domain.lstrip('0'):0>4}:{rest}"
    return address if is_pci_address(address) and address != "0000:00:00.0" else None


def _affinity(questions: _Queries, handle: object) -> tuple[int, ...] | None:
    call = "nvmlDeviceGetMemoryAffinity"
    words = questions.numbers("memory_affinity", _NODE_WORDS, call, handle, _NODE_WORDS, _SCOPE_NODE)
    if words is None:
        return None
    return tuple(64 * index + bit for index, word in enumerate(words) for bit in range(64) if word >> bit & 1)


def _fabric(questions: _Queries, handle: object) -> NvmlFabric | None:
    """Query with the newest struct that library and driver both support."""
    for version in _FABRIC_VERSIONS:
        fabric = questions.query("fabric", "nvmlDeviceGetGpuFabricInfoV", handle, version)
        if fabric is not None:
            break
    else:
        fabric = questions.query("fabric", "nvmlDeviceGetGpuFabricInfo", handle)
    if fabric is None:
        return None
    questions.absent.pop("fabric", None)
    uuid, *rest = _parts(fabric) or ("",)
    numbers = [part for part in rest if isinstance(part, int)]
    if not isinstance(uuid, str) or len(uuid) != 32 or not 3 <= len(numbers) == len(rest) <= 5:
        return questions.unusable("fabric", fabric)
    status, clique, state = numbers[:3]
    mask, summary = [*numbers[3:], None, None][:2]
    grouped = "-".join((uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:]))
    return NvmlFabric(state, status, grouped, clique, mask, summary)


def _links(questions: _Queries, handle: object) -> Iterator[NvmlLink]:
    for link in range(MAX_LINKS):
        active = questions.number("links", "nvmlDeviceGetNvLinkState", handle, link)
        if active is None:
            # Links are numbered from 0, and a number beyond the last one is an invalid argument. On an older GPU a link
            # that is not wired is "not supported", and wired links may follow it.
            if questions.lost or (questions.last_error and questions.last_error.code == INVALID_ARGUMENT):
                return
            continue
        yield _active_link(questions, handle, link) if active else NvmlLink(link, active=False)


def _link_errors(questions: _Queries, handle: object) -> int | None:
    """Return the errors of all links; counters that a GPU lacks are left out.

    None if a count could not be read now: a smaller sum would look like a reset.
    """
    known: list[int] = []
    for field in _NVLINK_ERRORS:
        count = questions.number("nvlink_errors", "nvmlDeviceGetFieldValues", handle, field)
        if count is not None:
            known.append(count)
        elif questions.last_error is not None and not questions.last_error.is_absence:
            return None
    if known:
        questions.absent.pop("nvlink_errors", None)
    return sum(known) if known else None


def _active_link(questions: _Queries, handle: object, link: int) -> NvmlLink:
    return NvmlLink(
        link,
        active=True,
        version=questions.number("links.version", "nvmlDeviceGetNvLinkVersion", handle, link),
        remote_type=questions.number("links.remote_type", "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link),
        remote_address=sysfs_address(
            questions.text("links.remote_address", "nvmlDeviceGetNvLinkRemotePciInfo", handle, link)
        ),
    )


def _mig_devices(backend: NvmlBackend, questions: _Queries, handle: object) -> Iterator[NvmlMigDevice]:
    most = questions.number("mig_devices", "nvmlDeviceGetMaxMigDeviceCount", handle) or 0
    for index in range(min(most, _MAX_MIG_DEVICES)):
        device = questions.query("mig_devices", "nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        if device is not None:
            yield _mig_device(_Queries(backend), device)
        elif questions.last_error and questions.last_error.is_absence:
            questions.absent.pop("mig_devices", None)  # no device at this index; later indexes may have one


def _mig_device(questions: _Queries, device: object) -> NvmlMigDevice:
    known: dict[str, Any] = {
        **{fact: questions.text(fact, call, device) for fact, call in _MIG_TEXTS.items()},
        **{fact: questions.number(fact, call, device) for fact, call in _MIG_NUMBERS.items()},
    }
    attributes = questions.numbers("attributes", len(_MIG_ATTRIBUTES) + 1, "nvmlDeviceGetAttributes", device)
    if attributes is not None:
        known |= dict(zip(_MIG_ATTRIBUTES, attributes, strict=False))
        known["memory"] = attributes[-1] * _MIB
    return NvmlMigDevice(**known, absent=questions.absent, faults=tuple(questions.faults))
