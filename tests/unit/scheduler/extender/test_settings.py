"""Settings of the extender: safe defaults, validation, deprecated names, and errors that state the remedy."""

from __future__ import annotations

from argparse import ArgumentParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.options import SettingsError
from zonewise_scheduler.extender.settings import OPTIONS, ExtenderSettings, read_settings

SOURCES = ("default", "file", "environment", "flag")


def read(text: str | None = None, environment: dict[str, str] | None = None, **flags: str) -> ExtenderSettings:
    return read_settings(flags, environment or {}, text, "scheduler.yaml")


def test_defaults() -> None:
    """The defaults listen on loopback, bind no pods, and keep aligned pods off nodes without a report."""
    values = read()
    assert values == ExtenderSettings()
    assert values.listen.startswith("127.0.0.1:")
    assert (values.bind, values.unreported_nodes, values.stale_reports) == (False, "allow-unaligned", "allow-unaligned")


def test_every_option_is_a_setting() -> None:
    """Every option except the deprecated ones has a field of the same name, and every field has an option."""
    current = [option.field for option in OPTIONS if not option.help.startswith("deprecated")]
    assert current == list(ExtenderSettings._fields)


@pytest.mark.parametrize("field", ExtenderSettings._fields)
def test_help_states_the_default(field: str) -> None:
    """The default in a help text is the actual default."""
    [option] = [option for option in OPTIONS if option.field == field]
    _, _, default = option.help.partition("default: ")
    if default and field != "kubeconfig":
        text = default.split(";")[0].rstrip(")").strip('"')
        assert getattr(read_settings({field: text}, {}, None), field) == getattr(ExtenderSettings(), field)


def test_every_option_is_an_argument() -> None:
    """Every setting has a flag of the same name, which takes text."""
    parser = ArgumentParser(exit_on_error=False)
    OPTIONS.add_arguments(parser)
    given_flags = vars(parser.parse_args(["--tls-client-ca=a", "--bind=true", "--stale-after", "2m"]))
    assert set(given_flags) == {*ExtenderSettings._fields, "promise_limit", "miss_dir", "miss_files"}
    assert (given_flags["tls_client_ca"], given_flags["bind"], given_flags["stale_after"]) == ("a", "true", "2m")


@given(st.sets(st.sampled_from(SOURCES[1:])))
def test_precedence(sources: set[str]) -> None:
    """Flags override the environment, the environment overrides the file, and the file overrides the defaults."""
    values = read(
        "staleAfter: 2s" if "file" in sources else None,
        {"ZONEWISE_STALE_AFTER": "3s"} if "environment" in sources else {},
        **({"stale_after": "4s"} if "flag" in sources else {}),
    )
    highest = max((SOURCES.index(source) for source in sources), default=0)
    assert values.stale_after == (ExtenderSettings().stale_after, 2.0, 3.0, 4.0)[highest]


def test_a_whole_file() -> None:
    """A file may contain every kind of value; TLS settings are nested."""
    text = """
    listen: ":9810"
    metricsListen: ""
    tls: {cert: /t/tls.crt, key: /t/tls.key, clientCa: /t/ca.crt}
    metricsAuth: token
    unreportedNodes: allow
    staleReports: deny
    staleAfter: 5m
    assumeTimeout: 500ms
    bind: yes
    mispredictionDir: /misses
    mispredictionFiles: 7
    """
    assert read(text) == ExtenderSettings(
        listen=":9810",
        metrics_listen="",
        tls_cert="/t/tls.crt",
        tls_key="/t/tls.key",
        tls_client_ca="/t/ca.crt",
        metrics_auth="token",
        unreported_nodes="allow",
        stale_reports="deny",
        stale_after=300.0,
        assume_timeout=0.5,
        bind=True,
        misprediction_dir="/misses",
        misprediction_files=7,
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("staleafter: 3s", "scheduler.yaml: staleafter: unknown key; did you mean staleAfter?"),
        ("interval: 3s", "scheduler.yaml: interval: unknown key; "),
        ("tls: {ca: a}", "scheduler.yaml: tls.ca: unknown key; did you mean tls.cert?"),
        ("staleAfter: later", "scheduler.yaml: staleAfter: 'later' must be a duration"),
        ("assumeTimeout: 0", "scheduler.yaml: assumeTimeout: 0 must be at least 100ms"),
        ("promiseLimit: 0", "scheduler.yaml: promiseLimit: 0 must be at least 100ms"),
        (
            "unreportedNodes: maybe",
            "scheduler.yaml: unreportedNodes: 'maybe' must be one of allow, allow-unaligned, deny",
        ),
        ("staleReports: off", "scheduler.yaml: staleReports: False must be one of allow, allow-unaligned, deny"),
        ("metricsAuth: mtls", "scheduler.yaml: metricsAuth: 'mtls' must be one of none, token"),
        ("bind: 2", "scheduler.yaml: bind: 2 must be true or false"),
        ("mispredictionFiles: 0", "scheduler.yaml: mispredictionFiles: 0 must be a whole number from 1 to 100000"),
        ("mispredictionDir: 3", "scheduler.yaml: mispredictionDir: 3 must be a string"),
        ("listen: 9810", "scheduler.yaml: listen: 9810 must be ADDRESS:PORT"),
        ("listen: ''", "listen: must not be empty: the extender needs an address"),
        ("tls: {cert: a}", "tls.cert and tls.key must be set together"),
        ("tls: {key: a}", "tls.cert and tls.key must be set together"),
        ("logLevel: loud", "scheduler.yaml: logLevel: 'loud' must be one of debug, info, warning, error"),
    ],
)
def test_errors(text: str, message: str) -> None:
    """An error names the source, the key, the value and the valid values."""
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(("old", "new"), [("blind", "allow"), ("unaligned", "allow-unaligned"), ("refuse", "deny")])
def test_deprecated_policies(old: str, new: str, caplog: pytest.LogCaptureFixture) -> None:
    """The deprecated name of a policy still works, with a warning that names the current one."""
    settings = read(f"unreportedNodes: {old}\nstaleReports: {old}")
    assert (settings.unreported_nodes, settings.stale_reports) == (new, new)
    assert f"the policy {old} is deprecated: use {new}" in caplog.text


def test_deprecated_options(caplog: pytest.LogCaptureFixture) -> None:
    """The deprecated name of an option still works, with a warning; the current name takes precedence."""
    settings = read("promiseLimit: 5s\nmissFiles: 3", {"ZONEWISE_MISS_DIR": "/old"}, miss_files="4")
    assert (settings.assume_timeout, settings.misprediction_dir, settings.misprediction_files) == (5.0, "/old", 4)
    assert "--promise-limit (promiseLimit) is deprecated: use --assume-timeout (assumeTimeout)" in caplog.text
    assert read("assumeTimeout: 6s", promise_limit="5s").assume_timeout == 6.0


def test_certificates_of_clients_need_tls() -> None:
    """Client certificates require TLS: without TLS, the extender would accept every caller."""
    with pytest.raises(SettingsError, match=r"^tls\.clientCa"):
        read("tls: {clientCa: a}")
