"""`zonewise up`: a cluster in one process, from real and simulated parts."""
