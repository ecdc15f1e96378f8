"""Pictures of what happened in a simulation: utilisation, the queue, waits by width, and a Gantt chart.

`picture` is the way in. What is drawn are arrays and plain values (`table`, `series`, `waits`, `excerpt`, `lanes`);
only `page`, `panels`, `candles`, `gantt` and `style`, which draw them, know matplotlib.
"""
