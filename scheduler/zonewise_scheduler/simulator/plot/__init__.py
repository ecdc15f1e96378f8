"""Draws pictures of a simulation: utilisation, the queue, waits by width, and a Gantt chart.

`plot_file` is the entry point. `history_arrays`, `step_functions`, `resource_shares`, `wait_quantiles`, `gantt_excerpt`
and `gantt_lanes` compute arrays and plain values. `figure`, `time_panels`, `wait_panel`, `gantt_chart` and `style` draw
them; only these import matplotlib.
"""
