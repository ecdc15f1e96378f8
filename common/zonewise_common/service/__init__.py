"""What every program of ours that runs for long has in common: settings, logs, and a server for metrics and health."""
