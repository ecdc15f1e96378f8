"""What our long-running programs share: settings, logs, TLS, and the HTTP server of metrics and health."""
