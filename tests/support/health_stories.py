"""Observations of a small machine with two GPUs, a port and a NIC, for tests of health faults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from zonewise.health.evaluation import Diagnosis, evaluate
from zonewise.health.kernel_events import device_events
from zonewise.health.state import HealthState, decode_state, encode_state
from zonewise.health.types import (
    GPU,
    CpuReading,
    DeviceEvent,
    DeviceId,
    GpuReading,
    HardwareObservation,
    LinkReading,
    MemoryReading,
    NicReading,
    PodName,
    PortReading,
    RasReading,
)
from zonewise.machine.kernel_log import LogRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

FIRST, SECOND, HCA, ETHERNET = "0000:3b:00.0", "0000:86:00.0", "0000:5e:00.0", "0000:18:00.0"
DRIVE = "0000:3d:00.0"
SWITCH = "0000:39:00.0"
"""The port of the switch above the first GPU, towards the host."""
FIRST_GPU, SECOND_GPU = DeviceId(GPU, FIRST), DeviceId(GPU, SECOND)
POD = PodName("team", "train-7x2bq", "main")
START = 1_700_000_000.0

HEALTHY = HardwareObservation(
    START,
    "boot-1",
    {address: GpuReading(address, f"GPU-{address}", recovery_action=0, nvlinks=18) for address in (FIRST, SECOND)},
    frozenset({FIRST, SECOND, HCA, ETHERNET}),
    frozenset({FIRST, SECOND}),
    frozenset({HCA, ETHERNET}),
    links={address: LinkReading(32.0, 16) for address in (FIRST, SECOND, HCA, SWITCH)},
    ports={"mlx5_0/1": PortReading("ACTIVE", "LinkUp", 400.0, {"symbol_error": 0, "link_downed": 2})},
    nics={"eth0": NicReading(ETHERNET, True, 25000)},
    memory=MemoryReading({"mc0/dimm1": 0}, {"mc0/dimm1": 0}, 0),
    cpus=CpuReading(96, (), {"package 0": 7}),
    memory_total=512 << 30,
    machine_id="machine-1",
    ras={FIRST: RasReading({"umc": 0, "gfx": 0}, {"umc": 0, "gfx": 0})},
    switch_ports=frozenset({SWITCH}),
    drives={DRIVE: "live"},
)


def gpu(address: str = FIRST, **changes: Any) -> dict[str, Any]:
    """Return the observation fields in which one GPU differs."""
    healthy = HEALTHY.gpus or {}
    return {"gpus": {**healthy, address: healthy[address]._replace(**changes)}}


def xid(code: int, at: float) -> tuple[DeviceEvent, ...]:
    """Return the event for an XID line of the kernel log."""
    line = f"NVRM: Xid (PCI:{FIRST[:-2]}): {code}, pid=4242, name=python"
    return tuple(device_events([LogRecord(None, at, line)]))


class Story:
    """A node over time; its agent may restart between any two observations."""

    def __init__(self, *, restarts: bool = False) -> None:
        self.state = HealthState()
        self.now = START
        self.held: Mapping[DeviceId, Iterable[PodName]] | None = None
        self._restarts = restarts
        self.observe()

    def observe(self, after: float = 1.0, **changes: Any) -> Diagnosis:
        """Observe the healthy machine with some changes, `after` seconds later."""
        self.now += after
        if self._restarts:
            self.state = decode_state(encode_state(self.state))
        evaluation = evaluate(self.state, HEALTHY._replace(time=self.now, **changes), self.held)
        self.state = evaluation.state
        return evaluation

    def last(self, seconds: float, **changes: Any) -> Diagnosis:
        """Repeat the same observation once a minute for this many seconds."""
        evaluation = self.observe(0.0, **changes)
        for _ in range(int(seconds // 60)):
            evaluation = self.observe(60.0, **changes)
        return evaluation

    @property
    def rules(self) -> list[str]:
        """The rules of the active faults."""
        return [fault.sign.rule for fault in self.state.active]
