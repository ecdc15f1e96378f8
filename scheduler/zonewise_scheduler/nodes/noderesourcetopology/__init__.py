"""The plugin NodeResourceTopologyMatch of kubernetes-sigs/scheduler-plugins, exactly, quirks included.

It serves comparisons with the plugin: which pods it lets through that a kubelet rejects, and whether scores of the same
names are equal. Inputs are objects of the API. The rules are those of pkg/noderesourcetopology at 903da7df (2026) with
the cache that reserves nothing. Where the plugin panics, the status says so.
"""

from zonewise_scheduler.nodes.noderesourcetopology.filter import filter_node
from zonewise_scheduler.nodes.noderesourcetopology.score import STRATEGIES, Strategy, score_node
from zonewise_scheduler.nodes.noderesourcetopology.status import FilterStatus, ScoreStatus

__all__ = ["STRATEGIES", "FilterStatus", "ScoreStatus", "Strategy", "filter_node", "score_node"]
