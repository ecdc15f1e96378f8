"""Metrics common to all programs, with real certificates and a real client."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
import trustme
from prometheus_client import CollectorRegistry

from support.clock import Clock
from zonewise_common.kube.client import Client
from zonewise_common.kube.config import Config
from zonewise_common.kube.errors import TransportError
from zonewise_common.kube.resources import NODES
from zonewise_common.service.authorizer import Authorizer
from zonewise_common.service.metrics import ServiceMetrics
from zonewise_common.service.review_budget import CLIENT_BURST
from zonewise_common.service.tls import Certificates
from zonewise_sandbox.up.ports import reserved_port

if TYPE_CHECKING:
    from pathlib import Path

EXPIRY = "zonewise_tls_certificate_expiry_timestamp_seconds"


def issue(directory: Path, year: int) -> float:
    """Write a certificate and its key; return the time of expiry."""
    end = datetime(year, 1, 1, tzinfo=UTC)
    issued = trustme.CA().issue_cert("localhost", not_after=end)
    for name, pem in (("tls.key", issued.private_key_pem), ("tls.crt", issued.cert_chain_pems[0])):
        pem.write_to_path(str(directory / "new"))
        os.replace(directory / "new", directory / name)
    return end.timestamp()


def test_expiry_of_a_certificate(tmp_path: Path) -> None:
    """The metric follows the files without a new client. A server without TLS has no sample."""
    first = issue(tmp_path, 2040)
    registry, metrics = CollectorRegistry(), ServiceMetrics(dict)
    registry.register(metrics)
    metrics.add_certificates(None)
    assert not next(iter(registry.collect())).samples
    file = str(tmp_path / "tls.crt")
    metrics.add_certificates(Certificates(file, str(tmp_path / "tls.key")))
    assert registry.get_sample_value(EXPIRY, {"file": file}) == first
    second = issue(tmp_path, 2041)
    assert registry.get_sample_value(EXPIRY, {"file": file}) == second
    (tmp_path / "tls.crt").write_text("damaged")
    assert registry.get_sample_value(EXPIRY, {"file": file}) == second


def test_rejections_and_failures() -> None:
    """Rejected clients are counted by reason, failed requests by method and reason."""
    with reserved_port() as port:
        client = Client(Config.from_url(f"http://127.0.0.1:{port}"))
        registry, metrics = CollectorRegistry(), ServiceMetrics(client.request_failures)
        registry.register(metrics)
        authorizer = Authorizer(client, clock=Clock())
        metrics.add_authorizer(authorizer)
        with pytest.raises(TransportError):
            client.get(NODES, "n")
        assert authorizer.authorize("", "/metrics", "::1").status == 401
        statuses = [authorizer.authorize("Bearer a", "/metrics", "::1").status for _ in range(CLIENT_BURST + 2)]
        assert statuses == [503] * CLIENT_BURST + [429] * 2
    for reason, count in (("unauthenticated", 1), ("unavailable", CLIENT_BURST), ("rate_limited", 2)):
        assert registry.get_sample_value("zonewise_token_rejections_total", {"reason": reason}) == count
    for method, count in (("GET", 1), ("POST", CLIENT_BURST)):
        labels = {"method": method, "reason": "connection"}
        assert registry.get_sample_value("zonewise_api_request_failures_total", labels) == count
