"""Serve the webhooks and the read API over TLS, with a certificate from a Secret that all replicas share.

Each replica renews the Secret when that is due. If two renew it at once, one of them gets a Conflict and uses the
bundle that the other has written. The leader writes the CAs into the webhook configurations.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import logging
import os
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from zonewise_common.kube.client import PatchKind
from zonewise_common.kube.errors import AlreadyExists, Conflict, Forbidden, KubeError, NotFound
from zonewise_common.kube.failure_log import FailureLog
from zonewise_common.kube.resources import MUTATING_WEBHOOK_CONFIGURATIONS, SECRETS, VALIDATING_WEBHOOK_CONFIGURATIONS
from zonewise_common.service.http_server import HttpServer
from zonewise_common.service.tls import Certificates
from zonewise_scheduler.controller.webhooks.handler import DEFAULT_PATH, VALIDATE_PATH
from zonewise_scheduler.controller.webhooks.serving_certificate import CertificateBundle, next_bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.resources import Resource
    from zonewise_common.service.authorizer import Authorizer
    from zonewise_common.service.handlers import Handler
    from zonewise_scheduler.controller.types import Json

log = logging.getLogger(__name__)

_PERIOD = 60.0
"""Seconds between two checks of the Secret and, on the leader, of the webhook configurations."""
_RETRY = 5.0
"""Seconds until the next check after an error, and while nothing is served."""
_LEADER_PERIOD = 0.1
"""Seconds between two checks of whether this replica leads. No job can be created until its CAs are written."""
_IDLE_TIMEOUT = 120.0
"""Seconds for which an idle connection of the API server remains open. Go's net/http closes it after 90 s."""
_KEYS = {"ca": "ca.crt", "ca_key": "ca.key", "cert": "tls.crt", "key": "tls.key"}
"""Keys of the Secret by field of the CertificateBundle. The names are those of kubernetes.io/tls."""
_FILE = "webhook.pem"
_STOP_TIMEOUT = 0.3
"""Seconds that the thread may take to stop; one that waits for a silent API server is left behind."""


class WebhookOptions(NamedTuple):
    """The settings of the webhooks."""

    listen: str = ":9443"
    namespace: str = "zonewise"
    """Namespace of the Secret and the Service."""
    service: str = "zonewise-controller"
    """Name of the Service through which the API server calls the webhooks."""
    secret: str = "zonewise-controller-webhook"  # noqa: S105 -- a name
    configuration: str = "zonewise-controller"
    """Name of the MutatingWebhookConfiguration and of the ValidatingWebhookConfiguration."""
    directory: str = "/run/zonewise"
    """Directory for the certificate and its key, which Python reads from a file. It should be in memory."""

    names: tuple[str, ...] = ()
    """DNS names of the certificate, if the API server does not call it by the name of the Service."""

    @property
    def dns_names(self) -> tuple[str, ...]:
        """Return the DNS names of the certificate."""
        return self.names or (
            f"{self.service}.{self.namespace}.svc",
            f"{self.service}.{self.namespace}.svc.cluster.local",
        )


class WebhookServer:
    """The webhooks of one replica, as a context manager. They are served once there is a certificate."""

    def __init__(
        self,
        client: Client,
        handler: Handler,
        options: WebhookOptions,
        *,
        is_leader: Callable[[], bool],
        clock: Callable[[], float],
        authorizer: Authorizer | None = None,
    ) -> None:
        """Create a server; `clock` returns seconds since the epoch.

        `authorizer`: authorizes requests to all paths except those of the webhooks.
        """
        self._client, self._handler, self._options = client, handler, options
        self._authorizer = authorizer
        self._is_leader, self._clock = is_leader, clock
        self._bundle: CertificateBundle | None = None
        self._server: HttpServer | None = None
        check = "the certificate of the webhooks"
        self._failures = FailureLog(log, f"{check} cannot be checked", f"{check} is checked again")
        self._missing: set[Resource] = set()
        """Kinds of webhook configurations that were not installed in the last check."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)

    @property
    def port(self) -> int:
        """Return the port on which webhooks are served; 0 if they are not served."""
        return self._server.port if self._server else 0

    def __enter__(self) -> WebhookServer:
        """Start the server's thread."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop serving."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_TIMEOUT)
        if self._server is not None:
            self._server.close()

    def step(self) -> None:
        """Bring the certificate, the server and the configurations up to date. Raises KubeError, OSError."""
        try:
            self._write_file(self._current_bundle())
        except Forbidden:  # no replica may renew the certificate, so the one in use must remain trusted
            self._trust_bundles()
            raise
        if self._server is None and not self._stopping.is_set():
            file = self._file
            self._server = HttpServer(
                self._options.listen,
                self._handler,
                authorizer=self._authorizer,
                certificates=Certificates(file, file),
                public_paths=(DEFAULT_PATH, VALIDATE_PATH),
                idle=_IDLE_TIMEOUT,
            )
            self._server.start()
            log.info("webhooks are served on port %d", self._server.port)
        self._trust_bundles()

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait = _PERIOD
            try:
                self.step()
                self._failures.end()
            except (KubeError, OSError) as error:
                self._failures.add(error)
                wait = _RETRY
            except Exception:  # a bug must not end the thread
                log.exception("webhooks: the step failed")
                wait = _RETRY
            self._wait(wait)

    def _wait(self, seconds: float) -> None:
        """Wait until the next check is due, or this replica starts to lead."""
        deadline, led = time.monotonic() + seconds, self._is_leader()
        while (left := deadline - time.monotonic()) > 0 and not self._stopping.wait(min(left, _LEADER_PERIOD)):
            if self._is_leader() and not led:
                return

    @property
    def _file(self) -> str:
        return os.path.join(self._options.directory, _FILE)

    def _current_bundle(self) -> CertificateBundle:
        """Return the bundle in the Secret, which is renewed first if that is due. Raises KubeError."""
        options = self._options
        try:
            secret = self._client.get(SECRETS, options.secret, namespace=options.namespace)
        except NotFound:
            secret = None
        stored = _read_bundle(secret) if secret else None
        now = datetime.datetime.fromtimestamp(self._clock(), datetime.UTC)
        bundle = next_bundle(stored, options.dns_names, now)
        if bundle != stored:
            bundle = self._store(secret, bundle)
        return bundle

    def _store(self, secret: Json | None, bundle: CertificateBundle) -> CertificateBundle:
        """Write the Secret and return its bundle, or that of a replica that was faster. Raises KubeError."""
        options = self._options
        data = {_KEYS[field]: base64.b64encode(value).decode() for field, value in bundle._asdict().items()}
        metadata = {"name": options.secret, "namespace": options.namespace}
        try:
            if secret is None:
                self._client.create(SECRETS, {"metadata": metadata, "data": data}, namespace=options.namespace)
            else:
                self._client.replace(SECRETS, {**secret, "data": data}, namespace=options.namespace)
        except (AlreadyExists, Conflict):
            newest = self._client.get(SECRETS, options.secret, namespace=options.namespace)
            other = _read_bundle(newest)
            if other is None:
                raise
            return other
        except Forbidden as error:
            if secret is not None:
                raise
            problem = "does not exist, and may not be created: apply the manifests, which contain it"
            raise Forbidden(
                error.status, error.reason, f"Secret {options.namespace}/{options.secret} {problem}"
            ) from error
        log.info("the certificate of the webhooks is renewed in Secret %s/%s", options.namespace, options.secret)
        return bundle

    def _write_file(self, bundle: CertificateBundle) -> None:
        """Replace the server's file if the certificate has changed. The server then reads it again."""
        if self._bundle is not None and (self._bundle.cert, self._bundle.key) == (bundle.cert, bundle.key):
            self._bundle = bundle
            return
        temporary = f"{self._file}.new"
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(bundle.key + bundle.cert)
        os.replace(temporary, self._file)
        self._bundle = bundle

    def _trust_bundles(self) -> None:
        """Write the CAs into both webhook configurations, if this replica leads and has a bundle. Raises KubeError."""
        if self._bundle is not None and self._is_leader():
            for resource in (MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS):
                self._trust_bundle(resource, self._bundle)

    def _trust_bundle(self, resource: Resource, bundle: CertificateBundle) -> None:
        """Write the CAs into a webhook configuration if it contains others. Raises KubeError."""
        name = self._options.configuration
        try:
            configuration = self._client.get(resource, name)
        except NotFound:
            if resource not in self._missing:
                log.info("%s %s is not installed: nothing calls the webhooks of its kind", resource.kind, name)
            self._missing.add(resource)
            return
        self._missing.discard(resource)
        patch = trust_patch(configuration, base64.b64encode(bundle.ca).decode())
        if patch:
            self._client.patch(resource, name, patch, kind=PatchKind.JSON)
            log.info("%s %s trusts the webhooks' certificate", resource.kind, name)


def trust_patch(configuration: Json, ca_bundle: str) -> list[Json]:
    """Return the JSON patch that makes each webhook of a configuration trust a bundle; empty if all do already."""
    patch: list[Json] = []
    for i, webhook in enumerate(configuration.get("webhooks") or ()):
        if webhook.get("clientConfig", {}).get("caBundle") != ca_bundle:
            patch += [
                {"op": "test", "path": f"/webhooks/{i}/name", "value": webhook["name"]},
                {"op": "add", "path": f"/webhooks/{i}/clientConfig/caBundle", "value": ca_bundle},
            ]
    return patch


def _read_bundle(secret: Json) -> CertificateBundle | None:
    """Return the bundle in a Secret; None if a part is missing or damaged."""
    data: Json = secret.get("data") or {}
    try:
        return CertificateBundle(**{field: base64.b64decode(data[key], validate=True) for field, key in _KEYS.items()})
    except (KeyError, TypeError, binascii.Error):
        return None
