"""Code that our long-running programs share: settings, logs, TLS, and the HTTP server for metrics and health."""
