"""The kubelet's configuration in force, including flags, from its own server: GET /configz.

The response is {"kubeletconfig": {...}} (component-base/configz, cmd/kubelet/app/server.go setConfigz()). The kubelet
is always verified, because the request carries the bearer token of the agent's ServiceAccount.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from typing import Any, NamedTuple, cast
from urllib.parse import urlsplit

import msgspec

from zonewise.kubelet.config import KubeletConfigError

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
TIMEOUT = 2.0
"""Seconds for connecting and for each read; the kubelet is on this machine."""

_RESPONSE_LIMIT = 4 << 20  # bytes; a response is about 5 KB
_PORT = 10250

_UNVERIFIED = (
    "use a certificate of the cluster's CA for the kubelet (serverTLSBootstrap: true in its configuration, with its "
    "certificate requests approved), set kubeletCa to the CA of its certificate (pki/kubelet.crt if the "
    "kubelet signed its own), or set kubeletConfig to its configuration file"
)
_REMEDIES: dict[int, str] = {
    HTTPStatus.UNAUTHORIZED: "the kubelet rejects the agent's token: run it with authentication.webhook.enabled",
    HTTPStatus.FORBIDDEN: 'the agent\'s ServiceAccount needs the verb "get" on nodes/configz, or on nodes/proxy '
    "before 1.36",
    HTTPStatus.NOT_FOUND: "the kubelet serves no /configz: it runs with enableDebuggingHandlers: false",
}


class _HttpResponse(NamedTuple):
    status: int
    reason: str
    body: bytes


class Configz:
    """The configuration at one URL, https only.

    `ca` and `token` are files that are read at each request, since both are renewed; an empty `token` sends none.
    `server_name` is the name of the node, which the kubelet's certificate may contain instead of the URL's host. A
    certificate signed by the cluster contains the node's addresses; one that the kubelet signed itself contains only
    the node's name (cmd/kubelet/app/server.go InitializeTLS()).
    """

    def __init__(self, url: str, ca: str, token: str = "", server_name: str = "") -> None:
        """Set the location. Raises KubeletConfigError for an unusable URL."""
        self.origin = url
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or _PORT
        except ValueError as error:
            raise KubeletConfigError(f"{url}: {error}") from error
        if parts.scheme != "https" or not host:
            raise KubeletConfigError(
                f"{url}: must be an https URL, because the token is sent only to a verified server"
            )
        self._host, self._port, self._path = host, port, parts.path or "/configz"
        self._ca = ca
        self._token = token
        self._server_name = server_name

    def signature(self) -> object | None:
        """Return None: only reading shows whether the configuration changed."""
        return None

    def read(self) -> Mapping[str, object]:
        """Request the document. Raises KubeletConfigError, which names a remedy if one side does not trust
        the other.
        """
        try:
            response = self._verified_response()
        except ssl.SSLError as error:
            raise KubeletConfigError(
                f"{self.origin}: the kubelet's certificate cannot be verified: {_one_line(error)}; {_UNVERIFIED}"
            ) from error
        except (OSError, HTTPException) as error:
            raise KubeletConfigError(f"{self.origin}: no response: {_one_line(error)}") from error
        if response.status != HTTPStatus.OK:
            reason = _REMEDIES.get(response.status, response.reason)
            raise KubeletConfigError(f"{self.origin}: HTTP status {response.status}: {reason}")
        return _document(response.body, self.origin)

    def _verified_response(self) -> _HttpResponse:
        """Return the response after the first verification that succeeds; the token is never sent before that."""
        try:
            return self._fetch(self._host)
        except ssl.SSLError:
            if not self._server_name:
                raise
            return self._fetch(self._server_name)

    def _fetch(self, name: str) -> _HttpResponse:
        headers = {"Accept": "application/json", "User-Agent": "zonewise"}
        if self._token:
            headers["Authorization"] = f"Bearer {_text(self._token).strip()}"
        context = _context(self._ca)
        with (
            socket.create_connection((self._host, self._port), TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=name) as verified,
        ):
            connection = HTTPConnection(self._host, self._port)
            connection.sock = verified
            connection.request("GET", self._path, headers=headers)
            with connection.getresponse() as response:
                return _HttpResponse(response.status, response.reason, response.read(_RESPONSE_LIMIT + 1))


def _context(ca: str) -> ssl.SSLContext:
    """Return a context that verifies only against the certificates of one file."""
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise KubeletConfigError(f"{ca}: no CA certificates can be read: {error.strerror or error}") from error
    # on by default since Python 3.13; it rejects the authorities of many clusters, which have no key identifier
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except (OSError, UnicodeError) as error:
        raise KubeletConfigError(f"{path}: no token can be read: {error}") from error


def _document(body: bytes, url: str) -> Mapping[str, object]:
    if len(body) > _RESPONSE_LIMIT:
        raise KubeletConfigError(f"{url}: the response is larger than {_RESPONSE_LIMIT >> 20} MiB")
    try:
        decoded: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise KubeletConfigError(f"{url}: the response is not JSON: {error}") from error
    inner = cast("Mapping[str, object]", decoded).get("kubeletconfig") if isinstance(decoded, Mapping) else None
    if not isinstance(inner, Mapping):
        raise KubeletConfigError(f"{url}: the response contains no kubeletconfig")
    return cast("Mapping[str, object]", inner)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
