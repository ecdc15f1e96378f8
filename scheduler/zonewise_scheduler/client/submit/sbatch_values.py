"""The values of sbatch's options: times, amounts of memory, arrays, generic resources (sbatch(1)).

Each function raises ValueError with the expected form.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta
from typing import NamedTuple

from zonewise_scheduler.quota.api.declared_walltime import parse_walltime

MAX_ARRAY = 100_000
"""Elements of an array (the API's limit of completions of an Indexed Job with backoffLimitPerIndex is 100,000)."""
MAX_LISTED_ARRAY = 10_000
"""Maximum number of elements of an array whose indexes are not 0, 1, 2 and so on: the script lists each of them."""
_CLOCK = re.compile(r"(?:(?P<days>\d{1,6})-)?(?P<parts>\d{1,9}(?::\d{1,9}){0,2})", re.ASCII)
_MEMORY = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?(?:([KMGT])(?:i?B|i)?)?", re.ASCII | re.IGNORECASE)
_MIB = 1 << 20
_UNITS = {"K": 1 << 10, "": _MIB, "M": _MIB, "G": 1 << 30, "T": 1 << 40}
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_DELAY = re.compile(r"now(?:\+(\d{1,9})(?:(second|minute|hour|day|week)s?)?)?", re.ASCII)
_DELAY_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}
_CLOCK_NAMES = {"midnight": time(), "noon": time(12)}
_DATE_NAMES = {"today": 0, "tomorrow": 1}
"""Days from now."""
_UNLIMITED = frozenset({"0", "INFINITE", "UNLIMITED"})


def parse_time_limit(text: str) -> float | None:
    """Return the seconds of a time limit; None for unlimited.

    It accepts the forms of sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes and
    days-hours:minutes:seconds. It also accepts 90s, 45m, 2h and 1d12h.
    """
    if text.upper() in _UNLIMITED:
        return None
    match = _CLOCK.fullmatch(text)
    if match is None:
        try:
            return parse_walltime(text)
        except ValueError:
            raise ValueError(f"{text!r} is not a time limit, such as 2h, 90 (minutes), 1:30:00 or 1-12") from None
    parts = [int(part) for part in match["parts"].split(":")]
    if match["days"] is not None:
        hours, minutes, seconds = [*parts, 0, 0][:3]
        total = ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + seconds
    elif len(parts) == 3:
        total = (parts[0] * 60 + parts[1]) * 60 + parts[2]
    else:
        minutes, seconds = [*parts, 0][:2]
        total = minutes * 60 + seconds
    if not total:
        raise ValueError(f"{text!r} is not a time limit above zero")
    return float(total)


def parse_begin_time(text: str, now: datetime) -> datetime:
    """Return the time of now+2hours, 16:00, midnight, noon, tomorrow, 2026-12-24 or 2026-12-24T08:00.

    `now` is local and without a time zone, like the result, unless it has an offset from UTC. A time of day that has
    passed is that of the next day.
    """
    moment: datetime | None = None
    try:
        if (match := _DELAY.fullmatch(text)) is not None:
            seconds = int(match[1] or 0) * _DELAY_UNITS[match[2] or "second"]
            moment = now.astimezone(UTC) + timedelta(seconds=seconds)
        elif text in _DATE_NAMES:
            moment = datetime.combine(now.date() + timedelta(days=_DATE_NAMES[text]), time())
        elif "-" in text:
            moment = datetime.fromisoformat(text)
        elif text in _CLOCK_NAMES or ":" in text:
            clock = _CLOCK_NAMES.get(text) or time.fromisoformat(text)
            moment = datetime.combine(now.date(), clock)
            moment += timedelta(days=moment <= now)
    except (ValueError, OverflowError, TypeError):  # a time of day with an offset from UTC cannot be compared
        moment = None
    if moment is None:
        raise ValueError(f"{text!r} is not a time, such as now+2hours, 16:00, tomorrow or 2026-12-24T08:00")
    return moment


def parse_memory(text: str) -> int:
    """Return the bytes of 4096 (MiB), 16G, 512M or 1.5T; Kubernetes' 16Gi means the same as sbatch's 16G."""
    match = _MEMORY.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an amount of memory, such as 16G, 512M or 4096 (MiB)")
    fraction = match[2] or ""
    size = -(-int(match[1] + fraction) * _UNITS[(match[3] or "").upper()] // 10 ** len(fraction))
    if not size:
        raise ValueError(f"{text!r}: all memory of a node (sbatch's 0) is not supported: set an amount, such as 64G")
    return size


class JobArray(NamedTuple):
    """The elements of an array."""

    indexes: tuple[int, ...]
    """Ascending, without duplicates."""
    limit: int
    """Number of elements that run at once."""

    @property
    def is_plain(self) -> bool:
        """Return whether the indexes are 0, 1, 2 and so on, like those of an Indexed Job."""
        return self.indexes[-1] == len(self.indexes) - 1


def parse_array(text: str) -> JobArray:
    """Return the array for 0-15, 1,3,5-7, 0-15:4 or 0-15%4."""
    ranges, percent, limit = text.partition("%")
    indexes: set[int] = set()
    for part in ranges.split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{text!r} is not an array, such as 0-15, 1,3,5-7, 0-30:10 or 0-99%8")
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        if last < first or not step:
            raise ValueError(f"{text!r}: {part} is not a range from a smaller to a larger index")
        if (last - first) // step >= MAX_ARRAY:
            raise ValueError(f"{text!r} has more than {MAX_ARRAY} elements")
        indexes.update(range(first, last + 1, step))
    if percent and not (limit.isascii() and limit.isdecimal() and int(limit)):
        raise ValueError(f"{text!r}: {limit!r} after % is not a number of elements that may run at once")
    array = JobArray(tuple(sorted(indexes)), min(int(limit) if percent else len(indexes), len(indexes)))
    most = MAX_ARRAY if array.is_plain else MAX_LISTED_ARRAY
    if len(indexes) > most:
        raise ValueError(f"{text!r} has more than {most} elements")
    return array


def parse_gpus(text: str) -> int:
    """Return the number of GPUs, such as 8; a type, as in h100:8, is rejected with a description of the alternative."""
    kind, colon, number = text.rpartition(":")
    if colon:
        raise ValueError(
            f"{text!r}: the type of a GPU is a label of the node here: --gpus {number or 1} --node-selector "
            f"nvidia.com/gpu.product={kind}, with the product that `kubectl get nodes --show-labels` shows"
        )
    return parse_count(text)


def parse_gres(text: str) -> dict[str, int]:
    """Return the devices of each node for gpu:8, gpu, or a resource's own name: nvidia.com/gpu:8, rdma/hca:1."""
    devices: dict[str, int] = {}
    for part in text.split(","):
        name, *words = part.split(":")
        if not name:
            raise ValueError(f"{text!r} is not a list of resources, such as gpu:8 or rdma/hca:1")
        number = parse_gpus(":".join(words)) if words else 1
        devices[name] = devices.get(name, 0) + number
    return devices


def parse_count(text: str) -> int:
    """Return a positive integer."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text)):
        raise ValueError(f"{text!r} is not a positive whole number")
    return int(text)


def parse_nodes(text: str) -> int:
    """Return the number of nodes, such as 4; a range, as in 2-4, is rejected."""
    first, dash, last = text.partition("-")
    if dash and first != last:
        raise ValueError(f"{text!r}: a range of nodes is not supported: a job starts with all of its pods")
    return parse_count(first)
