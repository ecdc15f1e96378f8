"""The client for the API server that the settings select."""

from __future__ import annotations

from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import ConfigError
from zonewise_common.service.options import SettingsError


def open_client(api_server: str, kubeconfig: str, otherwise: str = "", *, timeout: float = 10.0) -> Client:
    """Return a client for a URL, for a kubeconfig file, or for the cluster in which this pod runs.

    `otherwise` is an alternative that the error message mentions at its end; `timeout` is in seconds, for each request.
    Raises SettingsError.
    """
    try:
        if api_server:
            return Client(Config.from_url(api_server), timeout=timeout)
        if kubeconfig:
            return Client(Config.from_kubeconfig(kubeconfig), timeout=timeout)
    except ConfigError as error:
        raise SettingsError(f"{'apiServer' if api_server else 'kubeconfig'}: {error}") from error
    try:
        return Client(Config.in_cluster(), timeout=timeout)
    except ConfigError as error:
        ways = "outside of a cluster, set it with --kubeconfig or --api-server"
        raise SettingsError(f"no API server: {error}; {ways}{otherwise}") from error
