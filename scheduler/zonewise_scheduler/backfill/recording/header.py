"""The first line of a recording: the planner's policy and settings, with which a replay makes the same decisions."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.k8s.fields import FieldReader
from zonewise_scheduler.backfill.policies import policy_named
from zonewise_scheduler.quota.api.configuration import (
    ADMISSION_FAIR_SHARING_SETTING,
    DEFAULT_SETTINGS,
    parse_admission_fair_sharing,
)
from zonewise_scheduler.quota.api.resource_settings import ALL_RESOURCES, RESOURCES_SETTING, parse_resource_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zonewise_scheduler.backfill.policies import BackfillPolicy
    from zonewise_scheduler.quota.api.configuration import QuotaSettings

Json = dict[str, Any]

VERSION = 1


class RecordingHeader(NamedTuple):
    """The policy and settings of a planner."""

    policy: str
    reserve_after: float = inf
    """Seconds."""
    quota_settings: QuotaSettings = DEFAULT_SETTINGS
    """Only the settings of ControllerSettings.quota_settings are recorded."""
    nodes: bool = False
    """Whether nodes decide in addition to quotas."""
    allow_unknown_nodes: bool = True
    """Whether nodes without a report admit every pod."""

    def document(self) -> Json:
        """Return the first line."""
        resources, sharing = self.quota_settings.resources, self.quota_settings.admission_fair_sharing
        return {
            "recording": VERSION,
            "policy": self.policy,
            "reserveAfter": None if self.reserve_after == inf else self.reserve_after,
            "fairSharing": self.quota_settings.fair_sharing,
            "nodes": self.nodes,
            "allowUnknownNodes": self.allow_unknown_nodes,
            **({} if resources == ALL_RESOURCES else {RESOURCES_SETTING: resources.as_object()}),
            **({} if sharing is None else {ADMISSION_FAIR_SHARING_SETTING: sharing.as_object()}),
        }

    @property
    def backfill_policy(self) -> BackfillPolicy:
        """The policy. Raises ValueError for an unknown one."""
        return policy_named(self.policy, self.reserve_after)


def read_header(document: Mapping[str, Any]) -> RecordingHeader:
    """Return the header in a first line. Raises ValueError, which names the field."""
    problems: list[str] = []
    reader = FieldReader(document, "", problems)
    if reader.number("recording") != VERSION:
        raise ValueError(f"recording: not {VERSION}, the version that is known: {document.get('recording')!r:.80}")
    header = RecordingHeader(
        reader.required_name("policy"),
        reader.non_negative("reserveAfter", inf),
        _quota_settings(reader),
        reader.flag("nodes", default=False),
        reader.flag("allowUnknownNodes", default=True),
    )
    reader.report_unknown()  # a setting of a later version: a replay without it would decide otherwise
    if problems:
        raise ValueError("; ".join(problems))
    policy_named(header.policy, header.reserve_after)
    return header


def _quota_settings(reader: FieldReader) -> QuotaSettings:
    settings = DEFAULT_SETTINGS._replace(fair_sharing=reader.flag("fairSharing", default=False))
    if reader.has(RESOURCES_SETTING):
        settings = settings._replace(resources=parse_resource_settings(reader.obj[RESOURCES_SETTING]))
    if reader.has(ADMISSION_FAIR_SHARING_SETTING):
        sharing = parse_admission_fair_sharing(reader.obj[ADMISSION_FAIR_SHARING_SETTING])
        settings = settings._replace(admission_fair_sharing=sharing)
    return settings
