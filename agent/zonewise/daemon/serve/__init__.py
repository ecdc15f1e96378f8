"""The agent's HTTP server: health, readiness, metrics, and what it knows; over TLS and to the entitled, if asked."""
