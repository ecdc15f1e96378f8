"""What the project promises about speed and memory, measured; every peer in the same run, as a ratio."""
