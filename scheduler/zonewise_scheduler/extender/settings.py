"""The settings of `zonewise scheduler`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.service.options import (
    Option,
    Options,
    SettingsError,
    boolean,
    choice,
    duration,
    listen_address,
    text,
    whole_number,
)
from zonewise_common.service.shared_options import API_SERVER, LOGS, METRICS_AUTH, check_tls, tls_options

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_FILE = "/etc/zonewise/scheduler.yaml"

_FALLBACKS = ("blind", "unaligned", "refuse")


class ExtenderSettings(NamedTuple):
    """What the scheduler was told. Durations are seconds; empty strings mean "none"."""

    kubeconfig: str = ""
    api_server: str = ""
    listen: str = "127.0.0.1:9810"
    metrics_listen: str = ":9811"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    metrics_auth: str = "none"
    unreported_nodes: str = "unaligned"
    stale_reports: str = "unaligned"
    stale_after: float = 60.0
    promise_limit: float = 120.0
    bind: bool = False
    miss_dir: str = ""
    miss_files: int = 100
    log_level: str = "info"
    log_format: str = "text"


OPTIONS = Options((
    *API_SERVER,
    Option("listen", listen_address, "serve the extender there (default: 127.0.0.1:9810)", "ADDRESS:PORT"),
    Option("metricsListen", listen_address, 'serve metrics and health there (default: ":9811"; "" for none)', "ADDRESS:PORT"),
    *tls_options("serve both", "take callers of the extender"),
    METRICS_AUTH,
    Option("unreportedNodes", choice(*_FALLBACKS), "pods on nodes without a report: any (blind), those that ask nothing of "
           "a zone (unaligned), none (refuse) (default: unaligned)", "|".join(_FALLBACKS)),
    Option("staleReports", choice(*_FALLBACKS), "the same for nodes whose report is stale (default: unaligned)",
           "|".join(_FALLBACKS)),
    Option("staleAfter", duration, "a report is stale when a pod has run so long without being in it (default: 60s)",
           "DURATION"),
    Option("promiseLimit", duration, "take a node back from a pod that is not bound within this time (default: 120s)",
           "DURATION"),
    Option("bind", boolean, "serve the verb bind too: bind pods ourselves, with the foretold zones as an annotation "
           "(default: false)", "true|false"),
    Option("missDir", text, "write a case for --replay there when a kubelet refuses what was foretold to fit", "PATH"),
    Option("missFiles", whole_number(1, 100_000), "keep the newest so many of them (default: 100)", "NUMBER"),
    *LOGS,
))  # fmt: skip


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, path: str = DEFAULT_FILE
) -> ExtenderSettings:
    """Return the settings of all places together; as the agent's. Raises SettingsError."""
    made = ExtenderSettings(**OPTIONS.read(flags, environment, content, path))
    check_tls(made)
    if made.tls_client_ca and not made.tls_cert:
        raise SettingsError("tls.clientCa needs tls.cert and tls.key: without TLS nobody shows a certificate")
    if not made.listen:
        raise SettingsError("listen: without an address there is no extender to ask")
    return made
