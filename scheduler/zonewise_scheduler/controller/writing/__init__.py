"""Execution of writes: conditional, rate-limited, repeated if the outcome is unknown, and counted."""
