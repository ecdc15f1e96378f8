"""An exact model of the plugin NodeResourceTopologyMatch of kubernetes-sigs/scheduler-plugins, including its quirks.

It serves comparisons: whether the plugin passes pods that a kubelet rejects, and whether scores of the same names are
equal. Inputs are API objects. The rules are those of pkg/noderesourcetopology at 903da7df (2026) with the cache that
reserves nothing. If the plugin panics, the status shows it.
"""

from zonewise_scheduler.nodes.noderesourcetopology.filter import filter_node
from zonewise_scheduler.nodes.noderesourcetopology.score import STRATEGIES, Strategy, score_node
from zonewise_scheduler.nodes.noderesourcetopology.status import FilterStatus, ScoreStatus

__all__ = ["STRATEGIES", "FilterStatus", "ScoreStatus", "Strategy", "filter_node", "score_node"]
