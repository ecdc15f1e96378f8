"""The bearer token that the controller gets through the API server's proxy.

The user's own token never goes beyond the API server. Otherwise the owner of a namespace with the controller's name
would get it. The token is that of $ZONEWISE_TOKEN, or a short one of the ServiceAccount zonewise-viewer, which may read
the read API and nothing else. The API server issues it whatever credentials the client has (KEP-1205, TokenRequest).
"""

from __future__ import annotations

import threading
import time
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from zonewise_common.kube.credentials import checked_token
from zonewise_common.kube.errors import Forbidden, KubeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable

    from zonewise_common.kube.transport import Transport

ACCOUNT = "zonewise-viewer"
LIFETIME = 600
"""Seconds: the least that the API server allows (pkg/apis/authentication/validation/validation.go)."""
RENEWED_AFTER = 0.8 * LIFETIME
"""Seconds, as the kubelet renews a pod's token (pkg/kubelet/token/token_manager.go, requiresRefresh)."""
RETRY = 10.0
"""Seconds until the next request of a token, once the API server has issued none."""


class ViewerToken:
    """A token that is requested when it is first needed, and renewed before it expires. Safe for several threads."""

    def __init__(
        self, transport: Transport, namespace: str, token: str = "", clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Request it from the API server of the transport, unless there is a `token`.

        `clock` returns seconds, and never goes back.
        """
        self._transport = transport
        self._namespace = namespace
        self._clock = clock
        self._lock = threading.Lock()
        self._token = token
        self._request_at = inf if token else -inf
        self.problem = ""
        """Why the API server has issued no token; "": it has, or was not asked."""

    def get(self) -> str:
        """Return the token; "": there is none."""
        with self._lock:
            if self._clock() >= self._request_at:
                requested = self._requested()
                self._token = requested or self._token
                self._request_at = self._clock() + (RENEWED_AFTER if requested else RETRY)
            return self._token

    def reject(self, token: str) -> bool:
        """Renew this token before its time, at the next get(); return whether it is a requested one."""
        with self._lock:
            if self._request_at == inf:
                return False
            if token == self._token:
                self._request_at = -inf
            return True

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
                "the Role zonewise-user gives this right"
            )
        except (KubeError, msgspec.DecodeError, LookupError, TypeError) as error:
            self.problem = (
                f"the API server does not issue a token of ServiceAccount {self._namespace}/{ACCOUNT}: {error}"
            )
        return ""

    def __repr__(self) -> str:
        return f"ViewerToken({self._namespace!r})"
