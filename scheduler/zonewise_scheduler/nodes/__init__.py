"""All nodes at once: arrays, filters, scores, gangs and assumed pods."""
