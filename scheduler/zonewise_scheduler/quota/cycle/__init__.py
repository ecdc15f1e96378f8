"""One cycle: what is decided about the heads of the queues."""
