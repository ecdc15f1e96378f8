"""What the plugin NodeResourceTopologyMatch of kubernetes-sigs/scheduler-plugins answers, its quirks included.

For those who come from it: to compare (which pods would it have let through that a kubelet refuses?), and to check
scores of the same names. Inputs are the API's own objects; the rules are those of pkg/noderesourcetopology at
903da7df (2026) with the cache that reserves nothing, and where it panics the answer says so instead.
"""

from zonewise_scheduler.nodes.noderesourcetopology.filter import filter_node
from zonewise_scheduler.nodes.noderesourcetopology.score import STRATEGIES, Strategy, score_node
from zonewise_scheduler.nodes.noderesourcetopology.status import FilterStatus, ScoreStatus

__all__ = ["STRATEGIES", "FilterStatus", "ScoreStatus", "Strategy", "filter_node", "score_node"]
