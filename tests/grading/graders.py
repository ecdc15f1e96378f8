"""All graders: each returns a discovered fact in the form of the expectation, and the expected fact.

A grader takes the machine and the whole snapshot, and returns (found, wanted), which are equal if the fact is correct.
UNGRADED names the facts that are not graded, with the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from grading import facts_cpu, facts_memory, facts_network, facts_pci

if TYPE_CHECKING:
    from grading.types import Grader

GRADERS: dict[str, Grader] = {
    **facts_cpu.GRADERS,
    **facts_memory.GRADERS,
    **facts_pci.GRADERS,
    **facts_network.GRADERS,
}

UNGRADED: dict[tuple[str, str], str] = {
    **facts_cpu.UNGRADED,
    **facts_memory.UNGRADED,
    **facts_pci.UNGRADED,
    **facts_network.UNGRADED,
}
"""(snapshot or "*", fact) -> the reason why it cannot be graded."""
