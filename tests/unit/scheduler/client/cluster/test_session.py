"""Which cluster a command uses."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

import pytest

from zonewise_common.cli.command import CommandError
from zonewise_common.kube.resources import CONFIG_MAPS, WORKLOADS
from zonewise_sandbox.apiserver import ApiServer
from zonewise_scheduler.client.cluster.session import add_cluster_arguments, open_session

Json = dict[str, Any]

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: u, user: {}}]
contexts: [{name: a, context: {cluster: c, user: u, namespace: team-a}}, {name: b, context: {cluster: c, user: u}}]
"""


def parsed(*words: str) -> Namespace:
    parser = ArgumentParser()
    add_cluster_arguments(parser)
    return parser.parse_args(words)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "config"
    path.write_text(KUBECONFIG)
    return str(path)


@pytest.mark.parametrize(
    ("words", "namespace", "scope"),
    [
        ((), "team-a", "team-a"),
        (("--context", "b"), "default", "default"),
        (("-n", "x"), "x", "x"),
        (("-A",), "team-a", None),
    ],
)
def test_namespaces(kubeconfig: str, words: tuple[str, ...], namespace: str, scope: str | None) -> None:
    with open_session(parsed("--kubeconfig", kubeconfig, *words), {}) as session:
        assert (session.namespace, session.scope) == (namespace, scope)


def test_the_kubeconfig_of_the_environment(kubeconfig: str) -> None:
    with open_session(parsed(), {"KUBECONFIG": kubeconfig}) as session:
        assert session.namespace == "team-a"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--context", "none"), "the kubeconfig: .*none"),
        (("--server", "host"), "--server: 'host' is not a URL"),
    ],
)
def test_mistakes(kubeconfig: str, words: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError, match=message), open_session(parsed("--kubeconfig", kubeconfig, *words), {}):
        pass


@pytest.mark.parametrize("server", [(), ("--server", "http://127.0.0.1:1")])
def test_an_error_does_not_quote_an_invalid_token(kubeconfig: str, server: tuple[str, ...]) -> None:
    environ = {"ZONEWISE_TOKEN": "very-secret\nof two lines"}
    with pytest.raises(CommandError) as damaged, open_session(parsed("--kubeconfig", kubeconfig, *server), environ):
        pass
    assert str(damaged.value) == "$ZONEWISE_TOKEN: the token contains characters that are not allowed in a header"


def test_no_cluster(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"set a kubeconfig with --kubeconfig or \$KUBECONFIG"), open_session(
        parsed(), {"HOME": str(tmp_path)}
    ):  # fmt: skip
        pass


def test_a_kubeconfig_takes_precedence_over_a_pods_service_account(kubeconfig: str, tmp_path: Path) -> None:
    """The precedence is that of kubectl (client-go tools/clientcmd/merged_client_builder.go)."""
    environ = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    with pytest.raises(CommandError, match="not in a cluster"), open_session(parsed(), environ):
        pass  # KUBERNETES_SERVICE_PORT is not set
    (tmp_path / ".kube").mkdir()
    Path(kubeconfig).rename(tmp_path / ".kube/config")
    with open_session(parsed(), environ) as session:
        assert session.namespace == "team-a"


def test_errors_of_the_server_state_a_remedy(kubeconfig: str) -> None:
    from zonewise_common.kube.resources import PODS

    with (
        pytest.raises(CommandError, match=r"the API server: .*; check that http://127\.0\.0\.1:1 is up, and"),
        open_session(parsed("--kubeconfig", kubeconfig), {}) as session,
    ):
        session.list(PODS)


def test_what_is_read_from_each_object() -> None:
    """None is left out, as are kinds that the server does not serve."""

    def read(obj: Json) -> str | None:
        return str(obj["data"]["of"]) if "data" in obj else None

    with ApiServer() as server, open_session(parsed("--api-server", server.url), {}) as session:
        for name, fields in (("a", {"data": {"of": "a"}}), ("b", {}), ("c", {"data": {"of": "c"}})):
            session.client.create(CONFIG_MAPS, {"metadata": {"name": name}, **fields}, namespace="default")
        assert session.read(CONFIG_MAPS, read, scope="default") == ["a", "c"]
        assert session.read(WORKLOADS, read, scope="default") == []
