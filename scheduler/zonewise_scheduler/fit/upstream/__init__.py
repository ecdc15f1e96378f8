"""What the plugin NodeResourceTopologyMatch of kubernetes-sigs/scheduler-plugins answers, its quirks included.

For those who come from it: to compare (which pods would it have let through that a kubelet refuses?), and to check
scores of the same names. Inputs are the API's own objects; the rules are those of pkg/noderesourcetopology at
903da7df (2026) with the cache that reserves nothing, and where it panics the answer says so instead.
"""

from zonewise_scheduler.fit.upstream.answers import FilterStatus, ScoreStatus
from zonewise_scheduler.fit.upstream.filtering import filter_node
from zonewise_scheduler.fit.upstream.scoring import STRATEGIES, Strategy, score_node

__all__ = ["STRATEGIES", "FilterStatus", "ScoreStatus", "Strategy", "filter_node", "score_node"]
