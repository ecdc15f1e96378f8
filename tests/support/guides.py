"""The guides of the simulator and the queue, and the numbers that they state."""

from __future__ import annotations

import re

from support.snapshots import PROJECT

SIMULATOR = (PROJECT / "docs/guides/simulator.md").read_text()
QUEUE = (PROJECT / "docs/guides/queue.md").read_text()
WAITS_BY_POLICY: dict[str, tuple[str, str]] = {
    name: (mean, longest)
    for name, mean, longest in re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([\d.]+) h \| ([\d.]+) d \|$", SIMULATOR, re.M)
}
"""Mean wait in hours and longest wait in days, on the log KTH-SP2."""
