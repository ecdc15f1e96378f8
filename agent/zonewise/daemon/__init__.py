"""`zonewise agent`: waits for an event, scans the node, and publishes the changes."""
