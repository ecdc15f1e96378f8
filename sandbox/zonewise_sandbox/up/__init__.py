"""`zonewise up`: a cluster in one process, composed of real and simulated parts."""
