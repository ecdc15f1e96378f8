"""`zonewise agent`: waits for something to change, scans, and publishes what is new."""
