"""Settings of the scheduler: defaults that are safe, words that are known, and errors that say what to do."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.options import SettingsError
from zonewise_scheduler.extender.settings import OPTIONS, ExtenderSettings, read_settings

PLACES = ("default", "file", "environment", "flag")


def read(text: str | None = None, environment: dict[str, str] | None = None, **flags: str) -> ExtenderSettings:
    return read_settings(flags, environment or {}, text, "scheduler.yaml")


def test_defaults() -> None:
    """Without a word it serves on loopback, binds nothing, and sends no pod that asks of zones where none are known."""
    made = read()
    assert made == ExtenderSettings()
    assert made.listen.startswith("127.0.0.1:")
    assert (made.bind, made.unreported_nodes, made.stale_reports) == (False, "unaligned", "unaligned")


def test_every_option_is_a_setting() -> None:
    """Every option has a field of its name, and every field an option."""
    assert [option.field for option in OPTIONS] == list(ExtenderSettings._fields)


@pytest.mark.parametrize("field", ExtenderSettings._fields)
def test_help_tells_the_default(field: str) -> None:
    """Where a default is told, it is the one that holds."""
    [option] = [option for option in OPTIONS if option.field == field]
    _, _, told = option.help.partition("default: ")
    if told and field != "kubeconfig":
        word = told.split(";")[0].rstrip(")").strip('"')
        assert getattr(read_settings({field: word}, {}, None), field) == getattr(ExtenderSettings(), field)


def test_every_option_is_an_argument() -> None:
    """A setting is given on the command line by the flag of its name, as a text that the options read."""
    parser = ArgumentParser(exit_on_error=False)
    OPTIONS.add_arguments(parser)
    given_flags = vars(parser.parse_args(["--tls-client-ca=a", "--bind=true", "--stale-after", "2m"]))
    assert set(given_flags) == set(ExtenderSettings._fields)
    assert (given_flags["tls_client_ca"], given_flags["bind"], given_flags["stale_after"]) == ("a", "true", "2m")


@given(st.sets(st.sampled_from(PLACES[1:])))
def test_precedence(places: set[str]) -> None:
    """Flags win over the environment, the environment over the file, the file over the default."""
    found = read(
        "staleAfter: 2s" if "file" in places else None,
        {"ZONEWISE_STALE_AFTER": "3s"} if "environment" in places else {},
        **({"stale_after": "4s"} if "flag" in places else {}),
    )
    highest = max((PLACES.index(place) for place in places), default=0)
    assert found.stale_after == (ExtenderSettings().stale_after, 2.0, 3.0, 4.0)[highest]


def test_a_whole_file() -> None:
    """Every kind of value, with a level of its own for TLS."""
    text = """
    listen: ":9810"
    metricsListen: ""
    tls: {cert: /t/tls.crt, key: /t/tls.key, clientCa: /t/ca.crt}
    metricsAuth: token
    unreportedNodes: blind
    staleReports: refuse
    staleAfter: 5m
    promiseLimit: 500ms
    bind: yes
    missDir: /misses
    missFiles: 7
    """
    assert read(text) == ExtenderSettings(
        listen=":9810",
        metrics_listen="",
        tls_cert="/t/tls.crt",
        tls_key="/t/tls.key",
        tls_client_ca="/t/ca.crt",
        metrics_auth="token",
        unreported_nodes="blind",
        stale_reports="refuse",
        stale_after=300.0,
        promise_limit=0.5,
        bind=True,
        miss_dir="/misses",
        miss_files=7,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("staleafter: 3s", "scheduler.yaml: staleafter: unknown key; did you mean staleAfter?"),
        ("interval: 3s", "scheduler.yaml: interval: unknown key; "),
        ("tls: {ca: a}", "scheduler.yaml: tls.ca: unknown key; did you mean tls.cert?"),
        ("staleAfter: later", "scheduler.yaml: staleAfter: 'later' must be a duration"),
        ("promiseLimit: 0", "scheduler.yaml: promiseLimit: 0 must be at least 100ms"),
        ("unreportedNodes: maybe", "scheduler.yaml: unreportedNodes: 'maybe' must be one of blind, unaligned, refuse"),
        ("staleReports: off", "scheduler.yaml: staleReports: False must be one of blind, unaligned, refuse"),
        ("metricsAuth: mtls", "scheduler.yaml: metricsAuth: 'mtls' must be one of none, token"),
        ("bind: 2", "scheduler.yaml: bind: 2 must be true or false"),
        ("missFiles: 0", "scheduler.yaml: missFiles: 0 must be a whole number from 1 to 100000"),
        ("missDir: 3", "scheduler.yaml: missDir: 3 must be a text"),
        ("listen: 9810", "scheduler.yaml: listen: 9810 must be ADDRESS:PORT"),
        ("listen: ''", "listen: without an address there is no extender to ask"),
        ("tls: {cert: a}", "tls.cert and tls.key go together"),
        ("tls: {key: a}", "tls.cert and tls.key go together"),
        ("logLevel: loud", "scheduler.yaml: logLevel: 'loud' must be one of debug, info, warning, error"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """An error names the place, the key, the value, and what it may be."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert str(caught.value).startswith(message)


def test_certificates_of_clients_need_tls() -> None:
    """Who asks for certificates of callers must not be served in the clear, open to everybody."""
    with pytest.raises(SettingsError, match=r"^tls\.clientCa"):
        read("tls: {clientCa: a}")
