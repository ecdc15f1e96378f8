"""TLS for our servers, with certificates that are renewed while they run."""

from __future__ import annotations

import logging
import os
import ssl
import time

from zonewise_common.service.certificate_expiry import earliest_expiry
from zonewise_common.service.options import SettingsError

log = logging.getLogger(__name__)


class Certificates:
    """A certificate with its key, and the clients' CA. The files are read again when they change."""

    def __init__(self, cert: str, key: str, client_ca: str = "") -> None:
        """Read the files. Raises OSError (which includes ssl.SSLError) if they cannot be used."""
        self._files = tuple(file for file in (cert, key, client_ca) if file)
        self._cert, self._key, self._client_ca = cert, key, client_ca
        self._signature = self._stat_files()
        self._context, self._expiry = self._read()
        self._problem = ""
        """Why the files could not be used at the last connection."""
        self._is_expiry_logged = False

    @property
    def file(self) -> str:
        """Return the path of the certificate file."""
        return self._cert

    def expiry(self) -> float | None:
        """Return when the first certificate of the chain expires, in seconds since 1970; None if it is unknown."""
        self.context()
        return self._expiry

    def context(self) -> ssl.SSLContext:
        """Return the context for the next connection. If changed files are invalid, the last valid ones stay in use.

        An expired certificate is logged once.
        """
        try:
            signature = self._stat_files()
            if signature != self._signature:
                self._context, self._expiry = self._read()
                self._signature, self._is_expiry_logged = signature, False
                log.info("new certificates are in force: %s", ", ".join(self._files))
            self._problem = ""
        except OSError as error:
            problem = _describe(error)
            if problem != self._problem:  # every client may open connections, and each checks the files
                log.warning("the new certificates cannot be used, and the old ones remain in force: %s", problem)
            self._problem = problem
        if not self._is_expiry_logged and self._expiry is not None and self._expiry <= time.time():
            self._is_expiry_logged = True
            log.warning("%s: the certificate has expired, so clients reject it: replace the file, which is read again "
                        "when it changes", self._cert)  # fmt: skip
        return self._context

    def _stat_files(self) -> tuple[tuple[int, int, int], ...]:
        stats = (os.stat(file) for file in self._files)
        return tuple((stat.st_mtime_ns, stat.st_ino, stat.st_size) for stat in stats)

    def _read(self) -> tuple[ssl.SSLContext, float | None]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self._cert, self._key, password="")  # OpenSSL would ask for one at the terminal
        if self._client_ca:
            context.load_verify_locations(self._client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
        return context, self._read_expiry()

    def _read_expiry(self) -> float | None:
        try:
            with open(self._cert, encoding="latin-1") as file:
                return earliest_expiry(file.read())
        except ValueError as error:
            log.warning("%s: the expiry of the certificate is unknown: %s", self._cert, error)
            return None


def open_certificates(cert: str, key: str, client_ca: str) -> Certificates | None:
    """Return the certificates of the settings tls.*; None if these are unset. Raises SettingsError."""
    if not cert:
        return None
    try:
        return Certificates(cert, key, client_ca)
    except OSError as error:
        files = ", ".join(filter(None, (cert, key, client_ca)))
        raise SettingsError(f"tls: {files} cannot be used: {_describe(error)}") from error


def _describe(error: OSError) -> str:
    """Return why files cannot be used."""
    if not isinstance(error, ssl.SSLError):
        return str(error.strerror)
    if error.reason == "KEY_VALUES_MISMATCH":
        return "the key does not fit the certificate"
    return "not certificates and an unencrypted key in PEM"
