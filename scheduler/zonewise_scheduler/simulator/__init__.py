"""The decisions of the queue on a virtual clock: `zonewise simulate`.

What goes in, what happens, and what is told of it:

    inputs/         whatever can be simulated, read: open.py tells what a file is; its results are a Log or a Scenario
    scenario.py     queues, nodes, and jobs that come: what a cluster is to do
    swf.py          logs of machines: jobs that were, on one pool of processors

    play.py         one policy over either of them, on one of two clocks that give the same History
    clock.py        one pool, by the closed forms of queue.time: 300,000 jobs in seconds
                    (workload.py and logged.py: a log as its tasks, and their outcome as a History;
                    promises.py: who was promised which start)
    cluster.py      a scenario, by queue.plan.Planner, which is what decides on a live cluster
                    (stage.py: what it begins with; latency.py: what takes time beside the work)
    foresight.py    asks for forecasts on the way, on either

    history.py      what happened, job by job: all that is told is made from it
    summary.py      the numbers of the field (accuracy.py: those of promises and forecasts)
    report/         tables, JSON, progress, for commands/simulating.py
    plot/           pictures

Nothing here decides: queue does. Nothing here is imported by queue or by what runs live.
"""
