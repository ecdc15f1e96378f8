"""The webhooks' certificate over decades: the API server trusts every certificate in use."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from hypothesis import given, settings
from hypothesis import strategies as st

from zonewise_scheduler.controller.webhooks import serving_certificate
from zonewise_scheduler.controller.webhooks.serving_certificate import (
    CA_LIFE,
    CERT_LIFE,
    CertificateBundle,
    next_bundle,
)

NAMES = ("zonewise-controller.zonewise.svc",)
START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
DAY = datetime.timedelta(days=1)


def read(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def is_trusted(cert: bytes, ca: bytes, now: datetime.datetime) -> bool:
    [leaf] = read(cert)
    issuers = [one for one in read(ca) if one.subject == leaf.issuer and one.not_valid_after_utc > now]
    for issuer in issuers:
        leaf.verify_directly_issued_by(issuer)
    return bool(issuers) and leaf.not_valid_before_utc <= now < leaf.not_valid_after_utc


def test_the_first_certificate() -> None:
    bundle = next_bundle(None, NAMES, START)
    [leaf] = read(bundle.cert)
    alternatives = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert alternatives.get_values_for_type(x509.DNSName) == list(NAMES)
    assert is_trusted(bundle.cert, bundle.ca, START)
    assert leaf.not_valid_after_utc == START + CERT_LIFE


def test_the_certificate_is_kept_while_no_renewal_is_due() -> None:
    bundle = next_bundle(None, NAMES, START)
    assert next_bundle(bundle, NAMES, START + 200 * DAY) is bundle


def test_the_ca_outlives_renewals() -> None:
    """Renewing only the certificate requires no new trust."""
    bundle = next_bundle(None, NAMES, START)
    renewed = next_bundle(bundle, NAMES, START + 300 * DAY)
    assert renewed.ca == bundle.ca
    assert renewed.cert != bundle.cert


@pytest.mark.parametrize("field", CertificateBundle._fields)
@pytest.mark.parametrize("damage", [b"", b"not PEM"])
def test_damaged_parts_are_replaced(field: str, damage: bytes) -> None:
    bundle = next_bundle(None, NAMES, START)
    repaired = next_bundle(bundle._replace(**{field: damage}), NAMES, START + DAY)
    assert is_trusted(repaired.cert, repaired.ca, START + DAY)
    assert next_bundle(repaired, NAMES, START + DAY) is repaired


def test_a_key_of_an_unsupported_kind_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = next_bundle(None, NAMES, START)

    def unsupported(_pem: bytes) -> None:
        raise UnsupportedAlgorithm("secp224k1")

    with monkeypatch.context() as patched:
        patched.setattr(serving_certificate, "_read_key", unsupported)
        repaired = next_bundle(bundle, NAMES, START + DAY)
    assert is_trusted(repaired.cert, repaired.ca, START + DAY)
    assert repaired.key != bundle.key


def test_a_certificate_for_other_names_or_of_another_key_is_replaced() -> None:
    bundle, other = (next_bundle(None, NAMES, START) for _ in range(2))
    assert next_bundle(bundle, ("other",), START) != bundle
    assert next_bundle(bundle._replace(key=other.key), NAMES, START) != bundle
    assert next_bundle(bundle._replace(ca=other.ca, ca_key=other.ca_key), NAMES, START) != bundle


def test_an_expired_one_is_replaced_at_once() -> None:
    late = START + CA_LIFE + DAY
    bundle = next_bundle(next_bundle(None, NAMES, START), NAMES, late)
    assert is_trusted(bundle.cert, bundle.ca, late)


@settings(max_examples=5, deadline=None)
@given(st.lists(st.integers(20, 50), min_size=120, max_size=120))
def test_each_certificate_is_trusted_before_it_is_used(days: list[int]) -> None:
    """The API server may trust the bundle of the last check, provided that the replicas check once in 50 days."""
    now = START
    bundle = next_bundle(None, NAMES, now)
    authorities: set[bytes] = set()
    for pause in days:
        trusted = bundle.ca
        now += pause * DAY
        bundle = next_bundle(bundle, NAMES, now)
        assert is_trusted(bundle.cert, trusted, now)
        assert is_trusted(bundle.cert, bundle.ca, now)
        authorities.add(bundle.ca_key)
    if sum(days) * DAY > CA_LIFE:
        assert len(authorities) > 1
    assert len(read(bundle.ca)) <= 2
