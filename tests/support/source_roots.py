"""The source roots of the project: the location of each package, by the name of its folder."""

from __future__ import annotations

from support.snapshots import PROJECT

SOURCES = {
    "common": PROJECT / "common/zonewise_common",
    "agent": PROJECT / "agent/zonewise",
    "scheduler": PROJECT / "scheduler/zonewise_scheduler",
    "sandbox": PROJECT / "sandbox/zonewise_sandbox",
}
