"""How a command reaches a cluster: kubectl's arguments, and the requests that all commands share."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from zonewise_common.cli.command import CommandError, require_extra
from zonewise_common.cli.imports import without_collections

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable, Generator, Mapping

    from zonewise_common.kube.client import Client
    from zonewise_common.kube.config import Config
    from zonewise_common.kube.resources import Resource
    from zonewise_scheduler.client.cluster.read_api import ReadApi

Json = dict[str, Any]
T = TypeVar("T")

READ_API_VARIABLE = "ZONEWISE_SERVER"
READ_API_TOKEN_VARIABLE = "ZONEWISE_TOKEN"  # noqa: S105 -- the name of a variable
_TIMEOUT = 20.0
"""Seconds for a request, enough for a list of a large cluster."""


def metadata_pairs(obj: Json, field: str) -> dict[str, str]:
    """Return the labels or annotations of an object; `field` is "labels" or "annotations"."""
    from zonewise_common.k8s.fields import FieldReader

    return FieldReader(obj, "", []).child("metadata").pairs(field)


class Session(NamedTuple):
    """A connection to a cluster."""

    client: Client
    read_api: ReadApi
    namespace: str
    """The namespace from the arguments, otherwise from the kubeconfig's context."""
    all_namespaces: bool = False

    @property
    def scope(self) -> str | None:
        """Return the namespace for lists; None for all namespaces."""
        return None if self.all_namespaces else self.namespace

    def now(self) -> float:
        """Return the time of the API server's last response, in seconds since 1970; before it, this machine's time.

        Times in objects follow the clocks of the cluster. This machine's clock may differ, and a simulated cluster may
        run faster than real time.
        """
        server_time = self.client.server_time
        return time.time() if server_time is None else server_time

    def list(
        self, resource: Resource, *, scope: str | None = None, label_selector: str = "", field_selector: str = ""
    ) -> list[Json]:
        """Return the objects of a kind; none if the cluster does not serve the kind. Raises KubeError."""
        from zonewise_common.kube.errors import NotFound

        try:
            return self.client.list(
                resource, namespace=scope, label_selector=label_selector, field_selector=field_selector
            ).items
        except NotFound:
            return []

    def read(self, resource: Resource, read: Callable[[Json], T | None], *, scope: str | None = None) -> list[T]:
        """Return what a function reads from each object of a kind, without None; none if the kind is not served.

        Each object is dropped before the next one is decoded, so the memory does not grow with the list. Raises
        KubeError.
        """
        import msgspec

        from zonewise_common.kube.errors import NotFound
        from zonewise_common.kube.nested_json import decode_nested

        decoder = msgspec.json.Decoder(dict[str, Any])

        def decode(raw: msgspec.Raw) -> T | None:
            return read(decode_nested(decoder.decode, raw))

        try:
            values, _ = self.client.list_raw(resource, decode, namespace=scope)
        except NotFound:
            return []
        return [value for value in values if value is not None]

    def username(self) -> str:
        """Return the name under which the API server knows the user. Raises KubeError, CommandError.

        Source: k8s.io/api authentication/v1 SelfSubjectReview, which `kubectl auth whoami` uses.
        """
        from zonewise_common.k8s.fields import FieldReader
        from zonewise_common.kube.resources import SELF_SUBJECT_REVIEWS

        review = {"apiVersion": SELF_SUBJECT_REVIEWS.api_version, "kind": SELF_SUBJECT_REVIEWS.kind}
        answer = FieldReader(self.client.create(SELF_SUBJECT_REVIEWS, review), "", [])
        if not (name := answer.child("status").child("userInfo").text("username")):
            raise CommandError("the API server does not state your name; use --user NAME")
        return name

    def find(self, resource: Resource, name: str, *, namespace: str | None = None) -> Json | None:
        """Return an object; None if there is none. Raises KubeError."""
        from zonewise_common.kube.errors import NotFound

        try:
            return self.client.get(resource, name, namespace=namespace)
        except NotFound:
            return None
        except ValueError as error:  # the text is not a valid name, so no object can have it
            raise CommandError(str(error)) from error


def add_cluster_arguments(
    parser: ArgumentParser,
    *,
    namespaced: bool = True,
    all_namespaces: bool = True,
    read_api: bool = True,
    short_namespace: bool = True,
) -> None:
    """Declare the arguments that select the cluster.

    `namespaced`: the command works in a namespace; `short_namespace`: -n is available for it.
    """
    group = parser.add_argument_group("cluster")
    add = group.add_argument
    if namespaced:
        add(*(["-n"] if short_namespace else []), "--namespace", metavar="NAME", default="", help="namespace (default: "
            "that of the kubeconfig's context)")  # fmt: skip
    if all_namespaces:
        add("-A", "--all-namespaces", action="store_true", help="read all namespaces")
    add("--kubeconfig", metavar="FILE", default="", help="kubeconfig to use (default: $KUBECONFIG, ~/.kube/config, or "
        "the service account of a pod)")  # fmt: skip
    add("--context", metavar="NAME", default="", help="context of the kubeconfig (default: the current one)")
    add("--api-server", metavar="URL", default="", help="URL of an API server that needs no credentials")
    if read_api:
        add("--server", metavar="URL", default="", help="URL of the controller's read API (default: "
            f"${READ_API_VARIABLE}, else through the API server)")  # fmt: skip
        add("--controller-namespace", metavar="NAME", default="zonewise", help="namespace in which the controller runs "
            "(default: zonewise)")  # fmt: skip


@contextlib.contextmanager
def open_session(arguments: Namespace, environ: Mapping[str, str] | None = None) -> Generator[Session]:
    """Connect to the cluster that the arguments select.

    Raises CommandError, also for API server errors within the block.
    """
    with require_extra("client"):
        from zonewise_common.kube.client import Client
        from zonewise_common.kube.errors import KubeError
    environ = os.environ if environ is None else environ
    config: Config | None = None
    try:
        config = _config(arguments, environ)
        with contextlib.closing(Client(config, timeout=_TIMEOUT)) as client:
            namespace = getattr(arguments, "namespace", "") or config.namespace
            with contextlib.closing(_read_api(arguments, config, environ)) as read_api:
                yield Session(client, read_api, namespace, getattr(arguments, "all_namespaces", False))
    except KubeError as error:
        raise CommandError(f"the API server: {error}{_advice(error, config)}") from error


def _config(arguments: Namespace, environ: Mapping[str, str]) -> Config:
    from zonewise_common.kube.config import Config, default_kubeconfig
    from zonewise_common.kube.errors import ConfigError

    if arguments.api_server:
        return Config.from_url(arguments.api_server)
    path = arguments.kubeconfig or default_kubeconfig(environ)
    if not (arguments.kubeconfig or environ.get("KUBECONFIG") or Path(path).is_file()):
        if environ.get("KUBERNETES_SERVICE_HOST"):
            return Config.in_cluster(environ=environ)
        raise CommandError(f"no cluster: there is no file {path}; set a kubeconfig with --kubeconfig or $KUBECONFIG")
    try:
        with without_collections():  # it imports the official client
            return Config.from_kubeconfig(path, arguments.context or None)
    except ConfigError as error:
        raise CommandError(f"the kubeconfig: {error}") from error


def _read_api(arguments: Namespace, config: Config, environ: Mapping[str, str]) -> ReadApi:
    from zonewise_common.kube.credentials import checked_token
    from zonewise_common.kube.errors import ConfigError
    from zonewise_scheduler.client.cluster.read_api import ReadApi, proxied_read_api
    from zonewise_scheduler.client.cluster.token_file import token_file

    token = environ.get(READ_API_TOKEN_VARIABLE, "")
    try:
        token = token and checked_token(token)
    except ConfigError as error:
        raise CommandError(f"${READ_API_TOKEN_VARIABLE}: {error}") from error
    url = getattr(arguments, "server", "") or environ.get(READ_API_VARIABLE, "")
    if url:
        return ReadApi.at(url, token)
    namespace = getattr(arguments, "controller_namespace", "zonewise")
    return proxied_read_api(config, namespace, token, token_file(config, namespace, environ))


def _advice(error: Exception, config: Config | None) -> str:
    """Return the remedy for an error of the API server; "" if the message suffices."""
    from zonewise_common.kube.errors import Forbidden, TransportError, Unauthorized

    if isinstance(error, Unauthorized):
        return "; log in again, or use another kubeconfig or context"
    if isinstance(error, Forbidden):
        return "; an administrator of the cluster can grant this permission with RBAC"
    if isinstance(error, TransportError) and config is not None:
        return f"; check that {config.url} is up, and that it is the right server"
    return ""
