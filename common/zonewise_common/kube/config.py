"""The address of the API server and the client's identity: in a cluster, from a kubeconfig, or from a URL."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zonewise_common.kube.credentials import FileToken, KubeconfigToken, StaticToken
from zonewise_common.kube.errors import ConfigError
from zonewise_common.kube.file_versions import file_versions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from zonewise_common.kube.credentials import Credentials
    from zonewise_common.kube.file_versions import FileVersions

SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"


class Certificate(NamedTuple):
    """A client certificate, as two PEM files."""

    chain: str
    key: str


class Config(NamedTuple):
    """The address of the API server and the client's identity. It holds no secret, so it can be printed."""

    url: str
    """The URL, such as "https://10.96.0.1:443". It may contain a path, for example behind a proxy."""
    ca: str = ""
    """The authorities that verify the server: a PEM file or PEM text; empty for the system's authorities."""
    credentials: Credentials | None = None
    certificate: Certificate | None = None
    namespace: str = "default"
    """The pod's namespace, or the namespace of the kubeconfig's context."""
    server_name: str = ""
    """The name in the server's certificate; empty if it is the host of the URL."""
    load_certificate: Callable[[], Certificate] | None = None
    """Function that fetches the client certificate from its source again, after a 401; None if the files are the only
    source."""
    user: str = ""
    """The name of the kubeconfig's user; empty without a kubeconfig."""
    load_ca: Callable[[], str] | None = None
    """Function that fetches `ca` from its source again, after a server was not trusted; None: `ca` never changes."""

    @classmethod
    def from_url(cls, url: str, token: str | None = None, *, ca: str = "") -> Config:
        """Return the configuration for a URL."""
        return cls(url, ca, StaticToken(token) if token else None)

    @classmethod
    def in_cluster(cls, root: str = SERVICE_ACCOUNT, environ: Mapping[str, str] | None = None) -> Config:
        """Return the configuration of a pod with a service account.

        Source of the rule: client-go rest/config.go, InClusterConfig. Raises ConfigError outside a cluster.
        """
        environ = os.environ if environ is None else environ
        host, port = (environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
        if not host or not port:
            raise ConfigError("not in a cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not both set")
        directory = Path(root)
        ca = directory / "ca.crt"
        if not ca.is_file():
            raise ConfigError(f"{ca}: no such file; check that a service account token is mounted")
        url = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        return cls(url, str(ca), FileToken(directory / "token"), namespace=_namespace(directory / "namespace"))

    @classmethod
    def from_kubeconfig(cls, path: str | None = None, context: str | None = None) -> Config:
        """Return the configuration of a kubeconfig.

        The official client reads the file, so every kind of credentials works.

        The default path is $KUBECONFIG or ~/.kube/config at the time of the call. Raises ConfigError if the file cannot
        be read, if this client does not support a setting, or if a credential program returns no credentials.
        """
        path = path or default_kubeconfig(os.environ)
        loaded, selected = _load(path, context)
        if not loaded.verify_ssl:
            raise ConfigError(f"{path}: insecure-skip-tls-verify is not supported: set certificate-authority")
        if loaded.proxy:
            raise ConfigError(f"{path}: proxy-url is not supported")
        certificate = _certificate(loaded)
        ca = loaded.ssl_ca_cert or ""
        has_token = bool(loaded.api_key)
        return cls(
            loaded.host,
            ca,
            KubeconfigToken(loaded, lambda: _load(path, context).configuration) if has_token else None,
            certificate,
            selected.get("namespace") or "default",
            getattr(loaded, "tls_server_name", None) or "",
            (lambda: _load_certificate(path, context)) if certificate else None,
            str(selected.get("user") or ""),
            _KubeconfigAuthority(path, context, ca).load,
        )


def default_kubeconfig(environ: Mapping[str, str]) -> str:
    """Return $KUBECONFIG, which may list several files, or ~/.kube/config. The file may not exist."""
    return environ.get("KUBECONFIG") or str(Path(environ.get("HOME") or Path.home()) / ".kube/config")


def _namespace(file: Path) -> str:
    try:
        return file.read_text().strip() or "default"
    except OSError:
        return "default"


class _Kubeconfig(NamedTuple):
    """What the official client reads from a kubeconfig."""

    configuration: Any
    """A `kubernetes.client.Configuration`, filled."""
    context: Mapping[str, Any]
    """The selected context: cluster, user and namespace."""


class _KubeconfigAuthority:
    """The authority of a kubeconfig's cluster.

    It is read again only if a file of the kubeconfig has changed, because reading may run a program.
    """

    def __init__(self, path: str, context: str | None, ca: str) -> None:
        self._path = path
        self._context = context
        self._ca = ca
        self._versions = self._file_versions()

    def load(self) -> str:
        """Return a PEM file, or "" for the system's authorities. Raises ConfigError."""
        versions = self._file_versions()
        if versions != self._versions:
            self._ca = _load(self._path, self._context).configuration.ssl_ca_cert or ""
            self._versions = versions
        return self._ca

    def _file_versions(self) -> FileVersions:
        return file_versions(filter(os.path.exists, self._path.split(os.pathsep)))


def _load(path: str, context: str | None) -> _Kubeconfig:
    """Read a kubeconfig once, as load_kube_config does: a file with many clusters takes a tenth of a second."""
    official = _official("kubernetes.config.kube_config")
    if not any(os.path.exists(file) for file in path.split(os.pathsep)):
        raise ConfigError(f"there is no file {path}")
    loaded = _official("kubernetes.client").Configuration()
    loaded.proxy = None  # the proxy may come from the environment, whose proxies are for other addresses
    try:
        merged = official.KubeConfigMerger(path).config
        loader = official.KubeConfigLoader(merged, active_context=context, config_base_path=None)
        loader.load_and_set(loaded)
        selected = loader.current_context["context"]
    except Exception as error:  # of any type: the client validates little of the file, and may send requests
        raise ConfigError(f"{path}: {_problem(path, context, error)}") from error
    if not loaded.api_key and not loaded.cert_file and (login := _login(path, selected.get("user"))):
        raise ConfigError(f"{path}: the user's {login} has returned neither a token nor a certificate")
    return _Kubeconfig(loaded, selected)


def _problem(path: str, context: str | None, error: Exception) -> str:
    """Return what is wrong with a kubeconfig that the official client cannot load."""
    try:
        contexts = _official("kubernetes.config.kube_config").KubeConfigMerger(path).config["contexts"]
        known = [entry["name"] for entry in contexts.value]
    except Exception:  # noqa: BLE001 -- of any type, as above
        is_malformed = isinstance(error, AttributeError | KeyError | TypeError)
        return "is not a kubeconfig, which has clusters, users and contexts" if is_malformed else str(error)
    if context and context not in known:
        return f"there is no context {context}; the contexts are {', '.join(map(str, known)) or '(none)'}"
    return str(error)


def _load_certificate(path: str, context: str | None) -> Certificate:
    certificate = _certificate(_load(path, context).configuration)
    if certificate is None:
        raise ConfigError(f"{path}: the user no longer has a client certificate")
    return certificate


def _certificate(loaded: Any) -> Certificate | None:  # noqa: ANN401 -- the official client is not typed
    return Certificate(loaded.cert_file, loaded.key_file) if loaded.cert_file else None


def _login(path: str, name: str | None) -> str:
    """Return the setting of a user that names a source of credentials, such as a program; empty if there is none."""
    users = _official("kubernetes.config.kube_config").KubeConfigMerger(path).config["users"]
    user = users.get_with_name(name, safe=True)
    settings = user.value.get("user") if user else None
    return next((name for name in ("exec", "auth-provider") if name in (settings or {})), "")


def _official(module: str) -> ModuleType:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            "reading a kubeconfig needs the official Kubernetes client: install zonewise with the extra [client], "
            "or run `make demo` in a checkout"
        ) from error
