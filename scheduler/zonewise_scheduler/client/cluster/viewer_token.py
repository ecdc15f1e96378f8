"""The bearer token that is sent to the controller through the API server's proxy.

The user's own token never passes beyond the API server. Otherwise, the owner of a namespace with the controller's name
would get it. The token is $ZONEWISE_TOKEN, or a short-lived one of the ServiceAccount zonewise-viewer, which may only
use the read API. The API server issues it for any kind of client credentials (KEP-1205, TokenRequest). Commands share
it through a file (token_file.py).
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.kube.credentials import checked_token
from zonewise_common.kube.errors import Forbidden, KubeError, NotFound
from zonewise_scheduler.client.cluster.token_file import NO_FILE, TokenFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.transport import Transport

ACCOUNT = "zonewise-viewer"
LIFETIME = 600
"""Lifetime in seconds, the minimum that the API server allows (pkg/apis/authentication/validation/validation.go)."""
RENEWED_AFTER = 0.8 * LIFETIME
"""Seconds until renewal, by the kubelet's rule for a pod's token (pkg/kubelet/token/token_manager.go,
requiresRefresh)."""
RETRY = 10.0
"""Seconds until the next request for a token, after the API server has issued none."""


class ViewerToken:
    """A token that is requested on first use, and renewed before it expires. Thread-safe."""

    def __init__(
        self,
        transport: Transport,
        namespace: str,
        token: str = "",
        file: TokenFile = NO_FILE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Request the token from the API server of the transport, unless `token` is set or the file has a usable one.

        `clock` returns seconds and is monotonic.
        """
        self._transport = transport
        self._namespace = namespace
        self._file = file
        self._clock = clock
        self._lock = threading.Lock()
        self._token: str = token
        self._request_at = inf if token else -inf
        self.problem = ""
        """Why the API server has issued no token; "" if there is a token, or none was requested."""

    def get(self) -> str:
        """Return the token; "" if there is none."""
        with self._lock:
            if self._clock() >= self._request_at:
                self._renew()
            return self._token

    def reject(self, token: str) -> bool:
        """Renew this token at the next get(), before it expires; return whether it is one that was requested."""
        with self._lock:
            if self._request_at == inf:
                return False
            if token == self._token:
                self._file.remove(token)
                self._request_at = -inf
            return True

    def _renew(self) -> None:
        """Set the token from the file, or to one that the API server issues now."""
        stored = self._file.read(RENEWED_AFTER)
        if stored is not None and stored.token != self._token:
            self._token, self._request_at = stored.token, self._clock() + stored.seconds
            self.problem = ""
            return
        requested = self._requested()
        if requested:
            self._file.write(requested, RENEWED_AFTER)
        self._token = requested or self._token
        self._request_at = self._clock() + (RENEWED_AFTER if requested else RETRY)

    def _requested(self) -> str:
        path = f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{ACCOUNT}/token"
        spec = {"expirationSeconds": LIFETIME}
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            body = self._transport.request("POST", path, {}, msgspec.json.encode(review))
            reply: dict[str, Any] = msgspec.json.decode(body, type=dict[str, Any])
            token = checked_token(str(reply["status"]["token"]))
            self.problem = ""
            return token
        except NotFound:
            self.problem = f"there is no ServiceAccount {ACCOUNT} in namespace {self._namespace}"
        except Forbidden:
            self.problem = (
                f"you may not create a token of ServiceAccount {self._namespace}/{ACCOUNT}; "
                "the Role zonewise-user grants this permission"
            )
        except (KubeError, msgspec.DecodeError, LookupError, TypeError) as error:
            self.problem = (
                f"the API server does not issue a token of ServiceAccount {self._namespace}/{ACCOUNT}: {error}"
            )
        return ""

    def __repr__(self) -> str:
        return f"ViewerToken({self._namespace!r})"
