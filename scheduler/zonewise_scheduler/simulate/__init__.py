"""The decisions of the queue on a virtual clock: traces, the event loop, and what came of it."""
