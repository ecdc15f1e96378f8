"""Graders of network facts.

The expectations contain networks only as OS devices of PCI functions, which are graded with those (facts_pci). Other
facts of networks are graded in test_infiniband_h100 and test_node_exporter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grading.types import Grader

GRADERS: dict[str, Grader] = {}
UNGRADED: dict[tuple[str, str], str] = {}
