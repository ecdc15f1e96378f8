"""Certificates in files that change while a server runs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from zonewise_common.service.options import SettingsError
from zonewise_common.service.tls import Certificates, open_certificates

if TYPE_CHECKING:
    from pathlib import Path


def test_unusable_files_are_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each connection checks the files, and every client may open connections."""
    file = tmp_path / "tls.pem"
    issued = trustme.CA().issue_cert("localhost").private_key_and_cert_chain_pem
    issued.write_to_path(file)
    certificates = Certificates(str(file), str(file))
    valid = certificates.context()
    for _ in range(2):
        file.write_text("damaged")
        assert [certificates.context() for _ in range(5)] == [valid] * 5
        file.unlink()
        assert certificates.context() is valid
        issued.write_to_path(file)
        valid = certificates.context()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 4


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("other", "the key does not fit the certificate"),
        ("encrypted", "not certificates and an unencrypted key in PEM"),
        ("damaged", "not certificates and an unencrypted key in PEM"),
        ("absent", "No such file or directory"),
    ],
)
def test_the_reason_why_files_cannot_be_used(tmp_path: Path, key: str, problem: str) -> None:
    """It is stated at the start. Nothing asks for the password of a key."""
    authority = trustme.CA()
    issued, other = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    text = issued.private_key_pem.bytes()
    encrypted = load_pem_private_key(text, None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret")
    )
    cert = tmp_path / "cert.pem"
    cert.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    (tmp_path / "other").write_bytes(other.private_key_pem.bytes())
    (tmp_path / "encrypted").write_bytes(encrypted)
    (tmp_path / "damaged").write_bytes(text[:100])
    with pytest.raises(SettingsError, match=f"cannot be used: {problem}$"):
        open_certificates(str(cert), str(tmp_path / key), "")


def test_a_key_that_does_not_fit_for_a_moment(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The old pair remains in force until the certificate has also been replaced."""
    authority = trustme.CA()
    old, new = authority.issue_cert("localhost"), authority.issue_cert("localhost")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    old.cert_chain_pems[0].write_to_path(cert)
    old.private_key_pem.write_to_path(key)
    certificates = Certificates(str(cert), str(key))
    context = certificates.context()
    new.private_key_pem.write_to_path(key)
    assert certificates.context() is context
    assert caplog.messages[-1].endswith("remain in force: the key does not fit the certificate")
    new.cert_chain_pems[0].write_to_path(cert)
    assert certificates.context() is not context


def test_an_expired_certificate_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A renewed file is read again, and logged again once it has expired."""
    file, authority = tmp_path / "tls.pem", trustme.CA()
    expired = datetime.now(UTC) - timedelta(hours=1)
    certificates: Certificates | None = None
    for i, not_after in enumerate((expired, None, expired)):
        issued = authority.issue_cert("localhost", not_before=expired - timedelta(days=1), not_after=not_after)
        issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / f"{i}.pem")
        (tmp_path / f"{i}.pem").replace(file)
        certificates = certificates or Certificates(str(file), str(file))
        caplog.clear()
        for _ in range(2):
            certificates.context()
        warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(warnings) == (not_after is not None)
        assert all(text.startswith(f"{file}: the certificate has expired, so clients") for text in warnings)
