"""Bearer tokens and their sources, which are read again when they change.

No token is ever printed: a repr names the source.
"""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from zonewise_common.kube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

log = logging.getLogger(__name__)

RELOAD_SECONDS = 60.0
"""Seconds until a token file is read again. The kubelet replaces a one-hour token after 80 % of its lifetime
(pkg/kubelet/token/token_manager.go), so a minute is soon enough. client-go uses the same value
(transport/token_source.go)."""


class Credentials(Protocol):
    """The client's identity, as the value of a header."""

    def header(self, *, fresh: bool = False) -> str:
        """Return the value of Authorization; with `fresh`, after a 401, read it from the source again.

        Raises ConfigError if there is none.
        """
        ...


class StaticToken:
    """A token that never changes."""

    def __init__(self, token: str) -> None:
        self._header = _bearer(token)

    def header(self, *, fresh: bool = False) -> str:  # noqa: ARG002 -- its source does not change
        """Return the value of Authorization."""
        return self._header

    def __repr__(self) -> str:
        return "StaticToken(...)"


class FileToken:
    """The token of a service account, in a file that the kubelet renews."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._lock = threading.Lock()
        self._header = ""
        self._read_at = 0.0

    def header(self, *, fresh: bool = False) -> str:
        """Return the value of Authorization, read at most RELOAD_SECONDS ago."""
        with self._lock:
            if fresh or not self._header or self._clock() - self._read_at >= RELOAD_SECONDS:
                self._read()
            return self._header

    def _read(self) -> None:
        try:
            self._header = _bearer(self._path.read_text())
        except (OSError, UnicodeDecodeError, ConfigError) as error:
            if not self._header:
                raise ConfigError(f"{self._path}: no token: {error}") from error
            log.warning("%s: the token cannot be read again, so the last one is used: %s", self._path, error)
        self._read_at = self._clock()

    def __repr__(self) -> str:
        return f"FileToken({str(self._path)!r})"


class KubeconfigToken:
    """The credentials of a kubeconfig, as the official client reads them: a token, a password, a program's output."""

    def __init__(self, loaded: Any, load: Callable[[], Any]) -> None:  # noqa: ANN401 -- it is not typed
        """Wrap a `kubernetes.client.Configuration` and the function that loads it again."""
        self._loaded = loaded
        self._load = load
        self._lock = threading.Lock()

    def header(self, *, fresh: bool = False) -> str:
        """Return the value of Authorization; the official client renews it when it expires.

        If the kubeconfig has no token or the program fails, the last token stays in use.
        """
        with self._lock:
            loaded = self._load() if fresh else self._loaded
            value = _authorization(loaded)
            self._loaded = loaded
            return value

    def __repr__(self) -> str:
        return "KubeconfigToken(...)"


def _authorization(loaded: Any) -> str:  # noqa: ANN401 -- it is not typed
    try:
        setting: dict[str, Any] = loaded.auth_settings().get("BearerToken", {})
    except Exception as error:  # any type is possible: it may run a program, or send a request
        raise ConfigError(f"the token cannot be renewed: {error}") from error
    return checked_token(str(setting.get("value") or ""))


def checked_token(token: str) -> str:
    """Return a token without surrounding whitespace. Raises ConfigError, whose message does not contain the token."""
    token = token.strip()
    if not token:
        raise ConfigError("the token is empty")
    if not token.isascii() or not token.isprintable():
        # http.client would reject it too, but its message would contain the token
        raise ConfigError("the token contains characters that are not allowed in a header")
    return token


def _bearer(token: str) -> str:
    return f"Bearer {checked_token(token)}"
