"""What NVIDIA's driver tells of its GPUs: in /proc/driver/nvidia, and by NVML.

/proc tells a little of every GPU, of those too that NVML leaves out. NVML is asked on the running machine only, and
there only if the driver drives a GPU; a capture holds NVML's answers of its time.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from zonewise.machine.collectors.pci import DEVICES
from zonewise.machine.model.gpu import Gpu
from zonewise.machine.nvml.meaning import described, record_sources
from zonewise.machine.nvml.wire import CAPTURED, from_json
from zonewise.machine.sysfs import is_pci_address

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise.machine.nvml.facts import NvmlFacts, NvmlGpu
    from zonewise.machine.reader import Reader

DRIVER = "nvidia"
PROC = "proc/driver/nvidia"

_ASKED = "dev/nvidiactl"
"""The device by which NVML reaches the driver: named as the source of what it says."""
_USED = "what /sys and /proc say"
# NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...
# NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.10  Release Build ...
_VERSION = re.compile(r"Kernel Module\s.*?\b(\d{1,4}(?:\.\d{1,4}){1,2})\s")
_MINOR = re.compile(r"\d{1,4}")


class Nvidia(NamedTuple):
    """What is known of NVIDIA's GPUs."""

    gpus: tuple[Gpu, ...]
    """All GPUs, NVIDIA's enriched; those of which only NVML tells are added."""
    told: dict[str, NvmlGpu]
    """What NVML told, by address."""


def listed_by_driver(read: Reader) -> frozenset[str]:
    """Return the addresses of the GPUs that the driver lists in /proc."""
    return frozenset(name for name in read.names(f"{PROC}/gpus") if is_pci_address(name))


def enrich_nvidia(read: Reader, gpus: tuple[Gpu, ...], listed: frozenset[str], ask: Callable[[], NvmlFacts]) -> Nvidia:
    """Return the GPUs with what the driver tells of NVIDIA's. `ask` asks NVML; it is called where it can answer."""
    driven = {gpu.address for gpu in gpus if gpu.driver == DRIVER}
    version = _driver_version(read) if driven else None
    texts = _information(read, [gpu.address for gpu in gpus if gpu.address in listed])
    gpus = tuple(_of_proc(read, gpu, texts.get(gpu.address), version) if gpu.address in driven else gpu for gpu in gpus)
    path, facts = _nvml(read, ask, wanted=bool(driven))
    if facts is None:
        return Nvidia(gpus, {})
    answer = _Answer(read, facts, path)
    answer.report(version)
    told = _by_address(facts, gpus)
    gpus = tuple(
        answer.of(gpu, told[gpu.address or ""]) if gpu.address in told
        else answer.untold(gpu, listed) if gpu.address in driven
        else gpu
        for gpu in gpus
    )  # fmt: skip
    matched = {one.place for one in told.values()}
    added = [answer.unlisted(one) for one in facts.gpus if one.place not in matched and (one.address or one.uuid)]
    return Nvidia((*gpus, *added), told)


def _by_address(facts: NvmlFacts, gpus: tuple[Gpu, ...]) -> dict[str, NvmlGpu]:
    """Return what NVML tells by the addresses of the GPUs that it tells it of; by UUID where it tells no address."""
    addresses = {gpu.address for gpu in gpus if gpu.address is not None}
    by_uuid = {gpu.uuid: gpu.address for gpu in gpus if gpu.uuid is not None}
    found: dict[str, NvmlGpu] = {}
    for one in facts.gpus:
        address = one.address or (by_uuid.get(one.uuid) if one.uuid is not None else None)
        if address is not None and address in addresses:
            found.setdefault(address, one)
    return found


# --- /proc/driver/nvidia


def _driver_version(read: Reader) -> str | None:
    path = f"{PROC}/version"
    text = read.text(path)
    if text is None:
        return read.text(f"sys/module/{DRIVER}/version")
    if found := _VERSION.search(f"{text} "):
        return found[1]
    read.problem(path, f"names no version: {text[:60]!r}", f"version of {DRIVER} is unknown")
    return None


def _information(read: Reader, addresses: list[str | None]) -> dict[str | None, str]:
    """Return what the driver's files say, by address; a file that only some GPUs lack is lost."""
    paths = {address: f"{PROC}/gpus/{address}/information" for address in addresses}
    texts = {address: text for address, path in paths.items() if (text := read.text(path)) is not None}
    for address in addresses if texts else ():
        if address not in texts:
            read.problem(paths[address], "says nothing", f"what it tells of {address} is unknown or from elsewhere")
    return texts


def _of_proc(read: Reader, gpu: Gpu, text: str | None, version: str | None) -> Gpu:
    """Return a GPU with what the driver's own files say of it."""
    fact, path = f"gpus.{gpu.address}", f"{PROC}/gpus/{gpu.address}/information"
    if version is not None:
        read.source(f"{fact}.driver_version", f"{PROC}/version", version, "the version of the kernel module")
    told = dict(_lines(text or ""))
    if text is not None and not told:
        read.problem(path, f"is not information: {text[:60]!r}", "nothing of it")
    minor = told.get("Device Minor", "")
    fields = {
        "model": told.get("Model"),
        "uuid": told.get("GPU UUID"),
        "minor": int(minor) if _MINOR.fullmatch(minor) else None,
        "vbios": told.get("Video BIOS"),
        "firmware": told.get("GPU Firmware"),
    }
    for name, value in fields.items():
        if value is not None:
            read.source(f"{fact}.{name}", path, value, "as the driver prints it")
    state = "excluded" if told.get("GPU Excluded") == "Yes" else None
    return gpu._replace(**fields, driver_version=version, state=state)


def _lines(text: str) -> list[tuple[str, str]]:
    """Return names and values; of a GPU that nothing has used since boot the driver prints question marks."""
    parts = [line.partition(":") for line in text.split("\n")]
    pairs = [(name.strip(), value.strip()) for name, _, value in parts]
    return [(name, value) for name, value in pairs if value and "?" not in value and value != "N/A"]


# --- NVML


def _nvml(read: Reader, ask: Callable[[], NvmlFacts], *, wanted: bool) -> tuple[str, NvmlFacts | None]:
    """Return where NVML's answers are from, and the answers; None where there are none, or unusable ones."""
    content = read.raw(CAPTURED)
    path = _ASKED if content is None else CAPTURED
    if content is None:
        facts = ask() if wanted and read.files.live else None
    else:
        try:
            facts = from_json(content.decode("utf-8"))
        except ValueError as error:
            read.problem(path, f"is not whole: {str(error)[:120]}", _USED)
            return path, None
    if facts is None:
        return path, None
    uncounted = facts.absent.get("gpus")
    problem = facts.problem or (f"NVML does not count the GPUs: {uncounted}" if uncounted else None)
    if problem is not None:
        read.problem(path, problem, _USED)
        return path, None
    return path, facts


class _Answer:
    """NVML's answer, and where it is from."""

    def __init__(self, read: Reader, facts: NvmlFacts, path: str) -> None:
        self._read = read
        self._facts = facts
        self._path = path

    def report(self, version: str | None) -> None:
        """Report what is wrong with the answer as a whole."""
        told = self._facts.driver_version
        if told is not None and version is not None and told != version:
            self._read.problem(
                self._path, f"NVML speaks of driver {told}, and the kernel module is {version}", f"driver {told}"
            )
        for fault in self._facts.faults:
            self._read.problem(self._path, fault, "the other answers of NVML")

    def of(self, gpu: Gpu, told: NvmlGpu) -> Gpu:
        """Return a GPU with what NVML told of it."""
        name = gpu.address or told.uuid or "a GPU"
        for fault in told.faults[:1]:
            more = f" and {len(told.faults) - 1} more faults" if len(told.faults) > 1 else ""
            self._read.problem(self._path, f"GPU {name}: {fault}{more}", "what else is known of it")
        if gpu.address is not None:
            record_sources(self._read, f"gpus.{gpu.address}", told, self._facts, self._path)
        return described(gpu, told, self._facts)

    def untold(self, gpu: Gpu, listed: frozenset[str]) -> Gpu:
        """Return a GPU that the driver drives and NVML does not list."""
        if gpu.state is not None:
            return gpu
        if self._is_hidden(gpu, listed):
            return gpu._replace(state="hidden")
        self._read.problem(
            f"{DEVICES}/{gpu.address}", f"is bound to {DRIVER}, and NVML does not list it: the driver has lost it, or"
            " could not start it", _USED,
        )  # fmt: skip
        return gpu._replace(state="lost")

    def _is_hidden(self, gpu: Gpu, listed: frozenset[str]) -> bool:
        """Tell whether this container is kept from a GPU: of the driver's files it sees those of others only."""
        if listed and gpu.address not in listed:
            return True
        devices = self._read.names("dev") if self._read.files.live and gpu.minor is not None else []
        return bool(devices) and f"nvidia{gpu.minor}" not in devices

    def unlisted(self, told: NvmlGpu) -> Gpu:
        """Return a GPU that NVML lists and PCI does not."""
        name = told.address or told.uuid
        self._read.problem(self._path, f"NVML lists GPU {name}, and PCI does not", "what NVML says of it")
        gpu = Gpu(told.address, None, DRIVER, None, None, None, DRIVER, None, None, None)
        if told.address is not None:
            self._read.source(f"gpus.{told.address}", self._path, told.address, "NVML nvmlDeviceGetPciInfo")
        return self.of(gpu, told)
