"""The published report of each node, and the node state that results with the facts of the Node object."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zonewise_scheduler.admission.report.interning import KindInterner
from zonewise_scheduler.admission.report.node_facts import with_node_facts
from zonewise_scheduler.nodes.node.node_info import kubelet_facts

if TYPE_CHECKING:
    from zonewise_scheduler.admission.node import NodeState
    from zonewise_scheduler.admission.report.node_report import NodeReport
    from zonewise_scheduler.nodes.node.node_info import NodeInfo


class NodeReports:
    """See the module. Not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._states: dict[str, NodeState] = {}  # without the Node's facts
        self._kinds = KindInterner()

    def set(self, report: NodeReport, info: NodeInfo | None) -> NodeReport:
        """Store a report, and return it with the facts of its node applied."""
        if report.state is None:
            self._states.pop(report.node, None)
            return report
        self._states[report.node] = report.state
        return report._replace(state=with_node_facts(report.state, kubelet_facts(info), self._kinds))

    def remove(self, node: str) -> None:
        """Remove a report."""
        self._states.pop(node, None)

    def changed_state(self, before: NodeInfo | None, info: NodeInfo) -> NodeState | None:
        """Return the state of a node whose facts have changed, or None if they have not or there is no report."""
        state = self._states.get(info.name)
        if state is None or (before is not None and kubelet_facts(before) == kubelet_facts(info)):
            return None
        return with_node_facts(state, kubelet_facts(info), self._kinds)
