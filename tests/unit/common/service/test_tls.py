"""Certificates in files that change while a server runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trustme

from zonewise_common.service.tls import Certificates

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


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
