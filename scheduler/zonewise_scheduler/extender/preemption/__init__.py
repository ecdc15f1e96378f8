"""Preemption for zones: the verb `preempt`, and evictions by the extender itself."""
