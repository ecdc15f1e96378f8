"""The shared vocabulary of agent and scheduler: plain values that depend on nothing else in zonewise."""
