"""`zonewise check`: the findings about a cluster, for people and for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_common.cli.details import Detail
from zonewise_scheduler.client.describe.description import Description
from zonewise_scheduler.client.setup.setup_findings import ERROR, OK, WARNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zonewise_scheduler.client.setup.setup_findings import Finding

_STYLES = {OK: "good", WARNING: "warning", ERROR: "bad"}


def describe_setup(findings: Sequence[Finding]) -> Description:
    """Return the description of a cluster's setup."""
    counts = {result: sum(finding.result == result for finding in findings) for result in (ERROR, WARNING)}
    texts = [f"{number} {result}{'' if number == 1 else 's'}" for result, number in counts.items() if number]
    details = [
        Detail("" if i and findings[i - 1].check == finding.check else finding.check, *_texts(finding))
        for i, finding in enumerate(findings)
    ]
    document = {"items": [finding._asdict() for finding in findings]}
    return Description(f"Setup of the cluster: {' and '.join(texts) or 'no error'}", details, document, "")


def _texts(finding: Finding) -> tuple[list[str], str]:
    """Return the lines of a finding, and their style."""
    message = finding.message if finding.result == OK else f"{finding.result}: {finding.message}"
    remedy = f"repair: {finding.remedy}" if finding.remedy else ""
    return list(filter(None, (message, remedy))), _STYLES.get(finding.result, "dim")
