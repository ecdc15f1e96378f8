"""The settings that all our programs have. `--help` imports this module, and with it neither a client nor TLS."""

from __future__ import annotations

from typing import Protocol

from zonewise_common.service.options import Option, SettingsError, choice, text

API_SERVER = (
    Option("kubeconfig", text, "reach the API server by this file (default: as a pod does)", "FILE"),
    Option("apiServer", text, "reach the API server at this URL without credentials, as `kubectl proxy` offers it",
           "URL"),
)  # fmt: skip
METRICS_AUTH = Option(
    "metricsAuth", choice("none", "token"), "ask the API server whether the bearer of a token may get /metrics "
    "(default: none)", "none|token",
)  # fmt: skip
LOGS = (
    Option("logLevel", choice("debug", "info", "warning", "error"), "default: info", "debug|info|warning|error"),
    Option("logFormat", choice("text", "json"), "default: text", "text|json"),
)


def tls_options(serving: str, clients: str) -> tuple[Option, ...]:
    """Return the options of TLS. `serving` and `clients` begin their help texts: "serve", "accept clients"."""
    return (
        Option("tls.cert", text, f"{serving} over TLS with this certificate, re-read when it changes", "FILE"),
        Option("tls.key", text, "and this key", "FILE"),
        Option("tls.clientCa", text, f"{clients} only with a certificate of these", "FILE"),
    )


class _TlsFiles(Protocol):
    @property
    def tls_cert(self) -> str: ...
    @property
    def tls_key(self) -> str: ...


def check_tls(settings: _TlsFiles) -> None:
    """Raise SettingsError where only one of certificate and key is named."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError("tls.cert and tls.key go together: one of them is missing")
