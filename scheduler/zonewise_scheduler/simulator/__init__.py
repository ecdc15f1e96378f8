"""The scheduler on a virtual clock: `zonewise simulate`.

Input, simulation and output:

    inputs/                 readers of all kinds of traces; loader.py detects the kind; results are SwfLog or Scenario
    scenario.py             queues, nodes and submitted jobs
    swf.py                  logs of machines: jobs on one pool of processors

    runner.py               runs one policy over either input, on one of two clocks that return the same History
    pool_simulation.py      one pool, by the closed forms of backfill.pool: 300,000 jobs in seconds
                            (pool_log.py: a log as tasks, the result as a History; reservations.py: records starts)
    cluster_simulation.py   a scenario, by the planner of backfill, as on a live cluster
                            (initial_state.py: its first snapshot; latency.py: delays in addition to the work)
    forecasters.py          records forecasts during either simulation

    history.py              each job and its runs: the source of every output
    summary.py              waits, utilisation, slowdown (accuracy.py: errors of reservations and forecasts)
    report/                 tables, JSON and progress, for commands/simulation.py
    plot/                   pictures

This package decides nothing: backfill does. Neither backfill nor live programs import it.
"""
