"""Quotas: who may use how much of what, who lends to whom, and who must give way; the rules of Kueue."""
