"""The expiry of certificates: of valid ones from trustme, and of damaged ones."""

from __future__ import annotations

import base64
import contextlib
from datetime import UTC, datetime

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st

from zonewise_common.service.certificate_expiry import earliest_expiry

CA = trustme.CA()
SOON, LATER = datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2050, 1, 1, tzinfo=UTC)
"""The latest time that is written as UTCTime, and the earliest GeneralizedTime."""


def issue(end: datetime) -> str:
    return CA.issue_cert("localhost", not_after=end).cert_chain_pems[0].bytes().decode()


PEM = issue(SOON)
DER = base64.b64decode("".join(PEM.splitlines()[1:-1]))


def pem_of(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.encodebytes(der).decode()}-----END CERTIFICATE-----\n"


@pytest.mark.parametrize("end", [SOON, LATER])
def test_expiry(end: datetime) -> None:
    """Both forms of times, UTCTime and GeneralizedTime, are read."""
    assert earliest_expiry(issue(end)) == end.timestamp()


def test_a_chain() -> None:
    """The certificate that expires first counts, at any position in the file."""
    for chain in (issue(SOON) + issue(LATER), "comment\n" + issue(LATER) + issue(SOON)):
        assert earliest_expiry(chain) == SOON.timestamp()


def test_no_certificate() -> None:
    """A file without a certificate has no expiry."""
    with pytest.raises(ValueError, match="empty"):
        earliest_expiry("damaged")


@given(st.integers(0, len(DER) - 1), st.binary(max_size=3))
def test_damaged_certificates(position: int, replacement: bytes) -> None:
    """For any bytes, the result is a time or a ValueError."""
    with contextlib.suppress(ValueError):
        assert isinstance(earliest_expiry(pem_of(DER[:position] + replacement + DER[position + 1 :])), float)


@given(st.integers(0, len(DER) - 1))
def test_truncated_certificates(length: int) -> None:
    """A truncated certificate has no expiry."""
    with pytest.raises(ValueError, match="certificate"):
        earliest_expiry(pem_of(DER[:length]))
