"""A primary location of the configuration, with a fallback until the primary has succeeded once."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_server import KubeletServer, write_ca, write_token
from zonewise.kubelet.config import KubeletConfigError
from zonewise.kubelet.config_source import ConfigSource, ConfigWithFallback, open_config

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FILE = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ntopologyManagerPolicy: restricted\n"


class Location:
    """A location that returns its policy or fails."""

    def __init__(self, origin: str, policy: str) -> None:
        self.origin = origin
        self.policy = policy
        self.error = ""

    def signature(self) -> object | None:
        return self.policy

    def read(self) -> Mapping[str, object]:
        if self.error:
            raise KubeletConfigError(f"{self.origin}: {self.error}")
        return {"topologyManagerPolicy": self.policy}


@pytest.fixture
def first() -> Location:
    return Location("first", "restricted")


@pytest.fixture
def second() -> Location:
    return Location("second", "best-effort")


@pytest.fixture
def source(first: Location, second: Location) -> ConfigSource:
    return ConfigSource(ConfigWithFallback(first, second))


def test_the_primary_is_used(source: ConfigSource) -> None:
    reading = source.read()
    assert (reading.config and reading.config.topology_manager_policy, reading.problem, reading.origin) == (
        "restricted",
        None,
        "first",
    )


def test_the_fallback_is_used_if_the_primary_fails(
    source: ConfigSource, first: Location, caplog: pytest.LogCaptureFixture
) -> None:
    """Its use is not a problem. It is logged once with its reason, and again for another reason."""
    first.error = "not verified"
    with caplog.at_level(logging.INFO, "zonewise"):
        readings = [source.read() for _ in range(3)]
        first.error = "HTTP status 403"
        source.read()
    assert {(reading.problem, reading.origin) for reading in readings} == {(None, "second")}
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "the kubelet's configuration is read from second: first: not verified"),
        ("INFO", "the kubelet's configuration is read from second: first: HTTP status 403"),
    ]


def test_it_is_a_problem_only_if_both_fail(source: ConfigSource, first: Location, second: Location) -> None:
    """The error contains both reasons."""
    first.error, second.error = "not verified", "cannot be read"
    reading = source.read()
    assert reading.config is None
    assert reading.problem == ("first: not verified; and second: cannot be read; the kubelet's policies are unknown")


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=8))
def test_which_configuration_applies(steps: list[tuple[bool, bool]]) -> None:
    """The last document of the primary applies; the fallback's applies until the primary has succeeded once."""
    first, second = Location("first", "restricted"), Location("second", "best-effort")
    source = ConfigSource(ConfigWithFallback(first, second))
    primary_succeeded = fallback_succeeded = False
    for first_fails, second_fails in steps:
        first.error, second.error = "x" * first_fails, "y" * second_fails
        reading = source.read()
        primary_succeeded |= not first_fails
        fallback_succeeded |= not second_fails and not primary_succeeded
        expected = "restricted" if primary_succeeded else "best-effort" if fallback_succeeded else None
        assert (reading.config.topology_manager_policy if reading.config else None) == expected
        good = not first_fails or (not primary_succeeded and not second_fails)
        assert (reading.problem is None) == good


def test_a_kubelet_with_a_self_signed_certificate(tmp_path: Path) -> None:
    """With kubeadm's default, the file is used, and nothing is sent to an unverified server."""
    (tmp_path / "config.yaml").write_text(FILE)
    with KubeletServer(trustme.CA(), "127.0.0.1") as kubelet:
        source = open_config(
            kubelet.url,
            ca=write_ca(tmp_path, trustme.CA()),
            token=write_token(tmp_path),
            fallback=f"{tmp_path}/config.yaml",
        )
        reading = source.read()
        assert reading.config is not None
        assert (reading.config.topology_manager_policy, reading.problem) == ("restricted", None)
        assert reading.origin == f"{tmp_path}/config.yaml"
        assert kubelet.authorizations == []


def test_the_file_is_not_read_while_configz_works(tmp_path: Path) -> None:
    """The response of /configz reflects command-line flags, which the file does not."""
    ca = trustme.CA()
    with KubeletServer(ca, "127.0.0.1") as kubelet:
        files = write_ca(tmp_path, ca), write_token(tmp_path)
        source = open_config(kubelet.url, ca=files[0], token=files[1], fallback=f"{tmp_path}/none")
        reading = source.read()
    assert (reading.problem, reading.origin) == (None, kubelet.url)
