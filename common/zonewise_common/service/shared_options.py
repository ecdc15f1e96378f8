"""The settings that all our programs share. `--help` imports this module, which imports neither a client nor TLS."""

from __future__ import annotations

from typing import Protocol

from zonewise_common.service.options import Option, SettingsError, choice, text

API_SERVER = (
    Option("kubeconfig", text, "kubeconfig for the API server (default: the pod's service account)", "FILE"),
    Option("apiServer", text, "URL of an API server that needs no credentials, such as that of `kubectl proxy`",
           "URL"),
)  # fmt: skip
METRICS_AUTH = Option(
    "metricsAuth", choice("none", "token"), "with token, serve /metrics, /debug and /api only to bearer tokens that "
    "the API server authorizes (default: none)", "none|token",
)  # fmt: skip
LOGS = (
    Option(
        "logLevel",
        choice("debug", "info", "warning", "error"),
        "lowest level of messages to log (default: info)",
        "debug|info|warning|error",
    ),
    Option("logFormat", choice("text", "json"), "format of the log (default: text)", "text|json"),
)


def tls_options(serving: str, clients: str) -> tuple[Option, ...]:
    """Return the TLS options. `serving` and `clients` begin their help texts: "serve", "accept clients"."""
    return (
        Option("tls.cert", text, f"{serving} over TLS with this certificate, reread when it changes", "FILE"),
        Option("tls.key", text, "private key of that certificate", "FILE"),
        Option("tls.clientCa", text, f"{clients} only with a certificate that one of these CAs signed", "FILE"),
    )


class _TlsFiles(Protocol):
    @property
    def tls_cert(self) -> str: ...
    @property
    def tls_key(self) -> str: ...


def check_tls(settings: _TlsFiles) -> None:
    """Raise SettingsError if only one of certificate and key is set."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError("tls.cert and tls.key must be set together: one of them is missing")
