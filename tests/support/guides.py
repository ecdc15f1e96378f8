"""The guides of the simulator and the queue, and the numbers in them."""

from __future__ import annotations

import re

from support.snapshots import PROJECT

SIMULATOR = (PROJECT / "docs/guides/simulator.md").read_text()
SCHEDULING = (PROJECT / "docs/guides/scheduling.md").read_text()
FROM_KUEUE = (PROJECT / "docs/guides/from-kueue.md").read_text()
WAITS_BY_POLICY: dict[str, tuple[str, str, str]] = {
    name: (mean, p95, longest)
    for name, mean, p95, longest in re.findall(
        r"^\| `([a-z0-9-]+)` \|.*\| ([\d.]+) h \| ([\d.]+) h \| ([\d.]+) d \|$", SIMULATOR, re.M
    )
}
"""Mean wait and 95th percentile in hours, and longest wait in days, on the log KTH-SP2."""
DEFAULT_POLICY_PAGE = (PROJECT / "docs/concepts/default-policy.md").read_text()
WAITS_BY_LOG: list[tuple[str, ...]] = re.findall(
    r"^\| ([\w ,-]*?) ?\| (greedy|EASY|default) \| ([\d.]+) (h|min) \| ([\d.]+) (?:h|min) "
    r"\| ([\d.]+) \| ([\d.]+) (d|h) \|$",
    DEFAULT_POLICY_PAGE,
    re.M,
)
"""For each log, by policy: mean with its unit, 95th percentile, bounded slowdown, longest with its unit."""
