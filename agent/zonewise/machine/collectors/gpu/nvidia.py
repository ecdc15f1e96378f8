"""Facts of NVIDIA GPUs from their driver: from /proc/driver/nvidia and through NVML.

/proc has a few facts of every GPU, including GPUs that NVML leaves out. NVML is called only on the running machine, and
only if its driver drives a GPU. A capture contains NVML's facts from the time of the capture.

The files in /proc are those of nv-procfs.c of the open kernel modules. Every line ends in a newline, so text after the
last newline is a truncated line.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.pci.functions import DEVICES
from zonewise.machine.model.gpu import Gpu
from zonewise.machine.nvml.facts_json import CAPTURED, from_json
from zonewise.machine.nvml.gpu_description import describe_gpu, record_sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu
    from zonewise.machine.reader import Reader

_DRIVER = "nvidia"

_CONTROL_DEVICE = "dev/nvidiactl"
"""The device by which NVML reaches the driver: named as the source of its facts."""
_USED = "the data in /sys and /proc"
_PROC = "proc/driver/nvidia"

# NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build ...
_VERSION = re.compile(r"Kernel Module\s.*?\b(\d{1,4}(?:\.\d{1,4}){1,2})\s")


class Nvidia(NamedTuple):
    """All known facts of NVIDIA GPUs."""

    gpus: tuple[Gpu, ...]
    """All GPUs, those of NVIDIA with further facts; GPUs that only NVML lists are added."""
    nvml_gpus: dict[str, NvmlGpu]
    """NVML's facts by address."""


def enrich_nvidia(
    read: Reader, gpus: tuple[Gpu, ...], listed: frozenset[str], query_nvml: Callable[[], NvmlFacts]
) -> Nvidia:
    """Return the GPUs with the facts that only NVIDIA's driver reports.

    `query_nvml` runs only if the driver drives a GPU.
    """
    driven = {gpu.address for gpu in gpus if gpu.driver == _DRIVER}
    version = _driver_version(read) if driven else None
    printed = _information(read, [gpu.address for gpu in gpus if gpu.address and gpu.address in listed])
    gpus = tuple(
        _enrich_from_proc(read, gpu, printed.get(gpu.address or "", {}), version) if gpu.address in driven else gpu
        for gpu in gpus
    )
    path, facts = _nvml(read, query_nvml, expected=bool(driven))
    if facts is None:
        return Nvidia(gpus, {})
    report = _NvmlReport(read, facts, path)
    report.report(version)
    by_address = _by_address(facts, gpus)
    gpus = tuple(
        report.enriched(gpu, by_address[gpu.address or ""]) if gpu.address in by_address
        else report.unlisted_by_nvml(gpu, listed) if gpu.address in driven
        else gpu
        for gpu in gpus
    )  # fmt: skip
    matched = {nvml_gpu.place for nvml_gpu in by_address.values()}
    added = [
        report.unlisted_by_pci(unmatched)
        for unmatched in facts.gpus
        if unmatched.place not in matched and (unmatched.address or unmatched.uuid)
    ]
    return Nvidia((*gpus, *added), by_address)


def _by_address(facts: NvmlFacts, gpus: tuple[Gpu, ...]) -> dict[str, NvmlGpu]:
    """Return NVML's facts by GPU address; by UUID for a GPU without an address."""
    addresses = {gpu.address for gpu in gpus if gpu.address is not None}
    by_uuid = {gpu.uuid: gpu.address for gpu in gpus if gpu.uuid is not None}
    by_address: dict[str, NvmlGpu] = {}
    for nvml_gpu in facts.gpus:
        address = nvml_gpu.address or (by_uuid.get(nvml_gpu.uuid) if nvml_gpu.uuid is not None else None)
        if address is not None and address in addresses:
            by_address.setdefault(address, nvml_gpu)
    return by_address


def _enrich_from_proc(read: Reader, gpu: Gpu, printed: dict[str, str], version: str | None) -> Gpu:
    """Return a GPU with the facts from the driver's own files."""
    fact, path = f"gpus.{gpu.address}", _information_path(gpu.address or "")
    if version is not None:
        read.source(f"{fact}.driver_version", f"{_PROC}/version", version, "the version of the kernel module")
    minor = printed.get("Device Minor", "")
    fields = {
        "model": printed.get("Model"),
        "uuid": printed.get("GPU UUID"),
        "minor": int(minor) if minor.isdecimal() and len(minor) <= 4 else None,
        "vbios": printed.get("Video BIOS"),
        "firmware": printed.get("GPU Firmware"),
    }
    for name, value in fields.items():
        if value is not None:
            read.source(f"{fact}.{name}", path, value, "as the driver prints it")
    state = "excluded" if printed.get("GPU Excluded") == "Yes" else None
    return gpu._replace(**fields, driver_version=version, state=state)


# --- NVML


def _nvml(read: Reader, query_nvml: Callable[[], NvmlFacts], *, expected: bool) -> tuple[str, NvmlFacts | None]:
    """Return NVML's facts with their source; None if there are no facts or they are unusable."""
    content = read.raw(CAPTURED)
    path = _CONTROL_DEVICE if content is None else CAPTURED
    if content is None:
        facts = query_nvml() if expected and read.files.live else None
    else:
        try:
            facts = from_json(content.decode("utf-8"))
        except ValueError as error:
            read.problem(path, f"is incomplete: {str(error)[:120]}", _USED)
            return path, None
    if facts is None:
        return path, None
    uncounted = facts.absent.get("gpus")
    problem = facts.problem or (f"NVML does not report the number of GPUs: {uncounted}" if uncounted else None)
    if problem is not None:
        read.problem(path, problem, _USED)
        return path, None
    return path, facts


class _NvmlReport:
    """NVML's facts, with their source."""

    def __init__(self, read: Reader, facts: NvmlFacts, path: str) -> None:
        self._read = read
        self._facts = facts
        self._path = path

    def report(self, version: str | None) -> None:
        """Report problems that concern the facts as a whole."""
        nvml_version = self._facts.driver_version
        if nvml_version is not None and version is not None and nvml_version != version:
            self._read.problem(
                self._path,
                f"NVML reports driver {nvml_version}, but the kernel module is {version}",
                f"driver {nvml_version}",
            )
        for fault in self._facts.faults:
            self._read.problem(self._path, fault, "the other results of NVML")

    def enriched(self, gpu: Gpu, nvml_gpu: NvmlGpu) -> Gpu:
        """Return a GPU with NVML's facts about it."""
        name = gpu.address or nvml_gpu.uuid or "a GPU"
        for fault in nvml_gpu.faults[:1]:
            more = f" and {len(nvml_gpu.faults) - 1} more faults" if len(nvml_gpu.faults) > 1 else ""
            self._read.problem(self._path, f"GPU {name}: {fault}{more}", "its other facts")
        if gpu.address is not None:
            record_sources(self._read, f"gpus.{gpu.address}", nvml_gpu, self._facts, self._path)
        return describe_gpu(gpu, nvml_gpu, self._facts)

    def unlisted_by_nvml(self, gpu: Gpu, listed: frozenset[str]) -> Gpu:
        """Return a GPU that the driver drives and NVML does not list."""
        if gpu.state is not None:
            return gpu
        if self._is_hidden(gpu, listed):
            return gpu._replace(state="hidden")
        self._read.problem(
            f"{DEVICES}/{gpu.address}", f"is bound to {_DRIVER}, but NVML does not list it: the driver has lost it, or"
            " could not start it", _USED,
        )  # fmt: skip
        return gpu._replace(state="lost")

    def _is_hidden(self, gpu: Gpu, listed: frozenset[str]) -> bool:
        """Return whether a GPU is hidden from this container: the driver shows the container only the files of other
        GPUs.
        """
        if listed and gpu.address not in listed:
            return True
        devices = self._read.names("dev") if self._read.files.live and gpu.minor is not None else []
        return bool(devices) and f"nvidia{gpu.minor}" not in devices

    def unlisted_by_pci(self, nvml_gpu: NvmlGpu) -> Gpu:
        """Return a GPU that NVML lists and PCI does not."""
        name = nvml_gpu.address or nvml_gpu.uuid
        self._read.problem(self._path, f"NVML lists GPU {name}, but PCI does not", "NVML's data")
        gpu = Gpu(nvml_gpu.address, None, _DRIVER, None, None, None, _DRIVER, None, None, None)
        if nvml_gpu.address is not None:
            self._read.source(f"gpus.{nvml_gpu.address}", self._path, nvml_gpu.address, "NVML nvmlDeviceGetPciInfo")
        return self.enriched(gpu, nvml_gpu)


# --- /proc/driver/nvidia


def _driver_version(read: Reader) -> str | None:
    """Return the version of the loaded kernel module; None if the file does not contain it."""
    path = f"{_PROC}/version"
    content = read.raw(path)
    if content is None:
        return read.text("sys/module/nvidia/version")
    text = content.decode("utf-8", "backslashreplace")
    if match := _VERSION.search(text):
        return match[1]
    read.problem(path, f"contains no version: {text[:60]!r}", "the driver's version is unknown")
    return None


def _information_path(address: str) -> str:
    """Return the file in which the driver describes a GPU."""
    return f"{_PROC}/gpus/{address}/information"


def _information(read: Reader, addresses: Iterable[str]) -> dict[str, dict[str, str]]:
    """Return the driver's facts of each GPU by address: "Model", "GPU UUID", "Device Minor" and others.

    The driver prints the same lines for every GPU, so a line that only some GPUs have was lost for the others.
    """
    printed_by_address = {address: _printed(read, _information_path(address)) for address in addresses}
    every = set[str]().union(*printed_by_address.values())
    for address, printed in printed_by_address.items():
        if lacking := sorted(every - set(printed)):
            what = f"lacks {', '.join(lacking)}" if printed else "contains nothing"
            read.problem(
                _information_path(address), what, f"its facts about {address} are unknown, or come from other sources"
            )
    return {
        address: {name: value for name, value in printed.items() if _is_known(value)}
        for address, printed in printed_by_address.items()
    }


def _is_known(value: str) -> bool:
    """Return whether a value is known: the driver prints question marks until a GPU is first used."""
    return bool(value) and "?" not in value and value != "N/A"


def _printed(read: Reader, path: str) -> dict[str, str]:
    content = read.raw(path)
    if content is None:
        return {}
    *lines, rest = content.decode("utf-8", "backslashreplace").split("\n")
    parts = [line.partition(":") for line in lines]
    fields = {name.strip(): value.strip() for name, colon, value in parts if colon}
    if rest or not fields:
        wrong = "is truncated" if fields else f"is not information: {rest[:60]!r}"
        read.problem(path, wrong, "its complete lines" if fields else "the file is ignored")
    return fields
