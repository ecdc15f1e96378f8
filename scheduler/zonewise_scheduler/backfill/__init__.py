"""The planner: which workloads start now, which stop, and which starts are reserved, by quota, topology and walltime.

state      planner_state.py: the data that events.py changes and scheduling_pass.py uses
future     timeline.py, reservation.py: reserved starts, which no other start may delay
policies   policies.py: which workloads get reservations, and which may start before others
queries    forecast.py: predicted starts; explain.py: why a workload waits; checkpoint.py: data that survives a restart
pool/      the closed form for one pool of resources
"""
