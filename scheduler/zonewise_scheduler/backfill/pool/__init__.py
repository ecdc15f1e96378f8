"""The planner's closed form for one pool of resources: the fast path for a queue in no cohort, without a topology.

Availability over time is then a step function of integers, and a decision costs microseconds. Policies and values are
the planner's: BackfillPolicy, Forecast, Explanation, Checkpoint. With at most one reservation, jobs start exactly when
the planner starts them (tests/unit/scheduler/backfill/scheduling/test_scheduling_pass_single_pool.py). With several,
the pool brings reservations forward in the order of the queue, but the planner in the order in which they were made.
"""
