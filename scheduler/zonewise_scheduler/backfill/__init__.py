"""The planner: which workloads start now, which stop, and which starts are reserved, by quota, topology and walltime.

state      planner_state.py: what events.py changes and scheduling_pass.py decides from
future     timeline.py, reservation.py: reserved starts, and that no other start delays them
policies   policies.py: which workloads get reservations, and which may start before others
queries    forecast.py: predicted starts; explain.py: why a workload waits; checkpoint.py: what a restart keeps
pool/      the closed form for one pool of resources
"""
