"""The values that a decision is made of: kinds of nodes and their states, shapes of pods, verdicts."""
