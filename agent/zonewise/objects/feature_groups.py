"""Groups of raw features that are large or change often, and that are published only on request.

Without them the object of a node takes a few KB. NFD's worker writes all of them: the options of a kernel alone take 60
KB.
"""

from __future__ import annotations

KERNEL_CONFIG = "kernel.config"
"""All options of the kernel; without the group, only those that matter for job placement."""
KERNEL_ENABLED_MODULE = "kernel.enabledmodule"
"""The modules that are loaded or linked into the kernel."""
NETWORK_PODS = "network.pods"
"""Interfaces that come and go with pods: veth pairs and virtual functions. Each pod then changes the object."""

FEATURE_GROUPS = (KERNEL_CONFIG, KERNEL_ENABLED_MODULE, NETWORK_PODS)

ALL, NONE = "all", "none"


def parse_feature_groups(value: object) -> tuple[str, ...]:
    """Return the groups that a setting names: "all", "none", or names separated by commas. Raises ValueError."""
    if value == ALL:
        return FEATURE_GROUPS
    names = [] if value in (NONE, "") else str(value).split(",")
    chosen = {name.strip() for name in names}
    if unknown := sorted(chosen.difference(FEATURE_GROUPS)):
        raise ValueError(
            f"{unknown[0]!r} is not a feature group: the groups are {', '.join((ALL, NONE, *FEATURE_GROUPS))}"
        )
    return tuple(group for group in FEATURE_GROUPS if group in chosen)
