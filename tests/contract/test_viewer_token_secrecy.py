"""A command that reads through the API server's proxy never prints or logs a token, whatever the servers respond."""

from __future__ import annotations

import json
import logging
import ssl
from typing import TYPE_CHECKING

import pytest
import trustme

from support.kube_faults import Exchange, ScriptedServer, give, refuse
from zonewise.cli import main
from zonewise_common.service.authorizer import TOKEN_HEADER

if TYPE_CHECKING:
    from pathlib import Path

    from support.kube_faults import Answer

OWN, VIEWERS = "very-secret-of-the-user", "very-secret-of-the-viewer"
AT = "2026-01-01T00:00:00Z"
FORECAST = {"at": AT, "clusterQueue": "q", "localQueue": "q", "startsNow": True, "forecast": {"likely": AT}}


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    issued = authority.issue_cert("localhost")
    with issued.private_key_and_cert_chain_pem.tempfile() as file:
        context.load_cert_chain(file)
    return context


@pytest.mark.parametrize(
    ("reply", "status"),
    [
        (give(200, FORECAST), 0),
        (give(200, b"<html>"), 2),
        (refuse(401, "Unauthorized"), 2),
        (refuse(403, "Forbidden"), 2),
        (refuse(404, "NotFound"), 2),
        (refuse(500, "InternalError"), 2),
        (Exchange.reset, 2),
    ],
    ids=["a forecast", "no JSON", "401", "403", "404", "500", "reset"],
)
@pytest.mark.parametrize("own", ["", OWN])
def test_no_token_is_printed(  # noqa: PLR0917 -- fixtures
    reply: Answer,
    status: int,
    own: str,
    authority: trustme.CA,
    tls: ssl.SSLContext,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tested at every log level, with a token from the environment and with a requested one."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.delenv("ZONEWISE_SERVER", raising=False)
    monkeypatch.setenv("ZONEWISE_TOKEN", own)
    (tmp_path / "ca.crt").write_bytes(authority.cert_pem.bytes())
    issued = give(201, {"status": {"token": VIEWERS}})
    with ScriptedServer([reply] if own else [issued, reply], tls=tls) as server:
        config = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority": "ca.crt"}}],
            "users": [{"name": "u", "user": {"token": OWN}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        (tmp_path / "config").write_text(json.dumps(config))  # JSON is YAML
        assert main(["forecast", "--kubeconfig", str(tmp_path / "config")]) == status
        assert server.requests[-1].headers[TOKEN_HEADER.lower()] == (own or VIEWERS)
    said = capsys.readouterr()
    assert said.out if status == 0 else said.err
    assert "very-secret" not in said.out + said.err + caplog.text
