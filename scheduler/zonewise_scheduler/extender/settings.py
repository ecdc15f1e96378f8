"""The settings of `zonewise scheduler`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.service.condition_option import AVOID_CONDITIONS
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
from zonewise_scheduler.extender.fallback_policy import ALLOW, ALLOW_UNALIGNED, DENY

if TYPE_CHECKING:
    from collections.abc import Mapping

log = logging.getLogger(__name__)

DEFAULT_FILE = "/etc/zonewise/scheduler.yaml"

_POLICIES = (ALLOW, ALLOW_UNALIGNED, DENY)
_OLD_POLICIES = {"blind": ALLOW, "unaligned": ALLOW_UNALIGNED, "refuse": DENY}
"""Policy names deprecated in 0.1.0 and dropped in the next minor version."""


class ExtenderSettings(NamedTuple):
    """Durations are seconds; an empty string means "none"."""

    kubeconfig: str = ""
    api_server: str = ""
    listen: str = "127.0.0.1:9810"
    metrics_listen: str = ":9811"
    tls_cert: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    metrics_auth: str = "none"
    metrics_tls_cert: str = ""
    metrics_tls_key: str = ""
    unreported_nodes: str = ALLOW_UNALIGNED
    stale_reports: str = ALLOW_UNALIGNED
    stale_after: float = 60.0
    watch_stale_after: float = 30.0
    assume_timeout: float = 120.0
    bind: bool = False
    direct_binding: bool = True
    preemption: bool = True
    avoid_conditions: tuple[str, ...] = ()
    misprediction_dir: str = ""
    misprediction_files: int = 100
    log_level: str = "info"
    log_format: str = "text"


def _fallback_policy(value: object) -> str:
    """Return a fallback policy for its current or deprecated name."""
    if isinstance(value, str) and value in _OLD_POLICIES:
        log.warning("the policy %s is deprecated: use %s", value, _OLD_POLICIES[value])
        return _OLD_POLICIES[value]
    return choice(*_POLICIES)(value)


_ASSUME_TIMEOUT = Option(
    "assumeTimeout",
    duration,
    "time after which an assumed pod that is not bound is forgotten (default: 120s)",
    "DURATION",
)
_MISPREDICTION_DIR = Option(
    "mispredictionDir", text, "directory for a case to --replay, written whenever a kubelet rejects a pod whose "
    "admission was predicted", "PATH",
)  # fmt: skip
_MISPREDICTION_FILES = Option(
    "mispredictionFiles", whole_number(1, 100_000), "number of cases to keep, the newest ones (default: 100)", "NUMBER"
)
_RENAMED = {"promiseLimit": _ASSUME_TIMEOUT, "missDir": _MISPREDICTION_DIR, "missFiles": _MISPREDICTION_FILES}
"""Options deprecated in 0.1.0 and dropped in the next minor version, each with the option that replaces it."""

_DEPRECATED = tuple(
    Option(key, option.parse, f"deprecated: use {option.flag}", option.metavar) for key, option in _RENAMED.items()
)

OPTIONS = Options((
    *API_SERVER,
    Option("listen", listen_address, "address at which to serve the extender (default: "
           "127.0.0.1:9810)", "ADDRESS:PORT"),
    Option("metricsListen", listen_address, 'address at which to serve metrics and health (default: ":9811"; "" for '
           "none)",
           "ADDRESS:PORT"),
    *tls_options("serve the extender, metrics and health", "accept callers of the extender"),
    METRICS_AUTH,
    Option("metricsTls.cert", text, "serve metrics and health over TLS with this certificate "
           "instead of tls.cert", "FILE"),
    Option("metricsTls.key", text, "private key of that certificate", "FILE"),
    Option("unreportedNodes", _fallback_policy, "which pods may go to nodes without a report: all (allow), those that "
           "no kubelet aligns (allow-unaligned), or none (deny) (default: allow-unaligned)", "|".join(_POLICIES)),
    Option("staleReports", _fallback_policy, "which pods may go to nodes whose report is stale, with the same values "
           "(default: allow-unaligned)",
           "|".join(_POLICIES)),
    Option("staleAfter", duration, "time that a pod may run without appearing in a report before the report is stale, "
           "plus 90s if the agent may poll (default: 60s)", "DURATION"),
    Option("watchStaleAfter", duration, "time without confirmation that nodes, reports and pods are current. After it, "
           "the extender is not ready and treats every report as stale (default: 30s)", "DURATION"),
    _ASSUME_TIMEOUT,
    Option("bind", boolean, "also serve the verb bind: bind pods, and annotate them with the predicted zones (default: "
           "false)", "true|false"),
    Option("directBinding", boolean, "bind a rejected pod as soon as a node admits it, without another call of "
           "kube-scheduler, if zonewise checks all of its constraints (default: true)", "true|false"),
    Option("preemption", boolean, "evict pods of lower priority if no node admits a pod for lack of a zone, and serve "
           "the verb preempt (default: true)", "true|false"),
    AVOID_CONDITIONS,
    _MISPREDICTION_DIR,
    _MISPREDICTION_FILES,
    *LOGS,
    *_DEPRECATED,
))  # fmt: skip


def read_settings(
    flags: Mapping[str, str | None], environment: Mapping[str, str], content: str | None, path: str = DEFAULT_FILE
) -> ExtenderSettings:
    """Return the settings from flags, environment and file; flags override the environment, which overrides the file.

    `content` is the text of the file at `path`, or None if there is no file. Raises SettingsError.
    """
    values = OPTIONS.read(flags, environment, content, path)
    for old, option in zip(_DEPRECATED, _RENAMED.values(), strict=True):
        if old.field in values:
            log.warning("%s (%s) is deprecated: use %s (%s)", old.flag, old.key, option.flag, option.key)
            values.setdefault(option.field, values.pop(old.field))
    settings = ExtenderSettings(**values)
    check_tls(settings)
    if bool(settings.metrics_tls_cert) != bool(settings.metrics_tls_key):
        raise SettingsError("metricsTls.cert and metricsTls.key must be set together: one of them is missing")
    if settings.tls_client_ca and not settings.tls_cert:
        raise SettingsError("tls.clientCa needs tls.cert and tls.key: clients present certificates only over TLS")
    if not settings.listen:
        raise SettingsError("listen: must not be empty: the extender needs an address to serve at")
    return settings
