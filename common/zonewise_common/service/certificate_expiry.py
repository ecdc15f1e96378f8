"""The expiry of certificates, read from PEM: the standard library reads only the fields of a peer's certificate.

Source: RFC 5280 section 4.1 (the fields and their order), ITU-T X.690 (DER).
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18


def earliest_expiry(pem: str) -> float:
    """Return when the first certificate of a chain expires, in seconds since 1970. Raises ValueError."""
    return min(_not_after(ssl.PEM_cert_to_DER_cert(block)) for block in _PEM.findall(pem))


def _not_after(der: bytes) -> float:
    fields = _elements(_only(_elements(der)[:1]))  # tbsCertificate, signatureAlgorithm, signature
    signed = [field for field in _elements(_only(fields[:1])) if field[0] != _VERSION]
    validity = signed[3:4]  # after serialNumber, signature and issuer
    times = _elements(_only(validity))
    if len(times) != 2:
        raise ValueError("the validity of a certificate is not a pair of times")
    kind, text = times[1]
    digits = text.decode("ascii")
    if kind == _UTC_TIME:  # RFC 5280 section 4.1.2.5.1: years from 1950 to 2049
        digits = ("19" if digits >= "50" else "20") + digits
    elif kind != _GENERALIZED_TIME:
        raise ValueError("the end of a certificate's validity is not a time")
    return datetime.strptime(digits, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _only(elements: list[tuple[int, bytes]]) -> bytes:
    """Return the content of a sequence."""
    if not elements or elements[0][0] != _SEQUENCE:
        raise ValueError("a certificate is not valid DER (RFC 5280)")
    return elements[0][1]


def _elements(content: bytes) -> list[tuple[int, bytes]]:
    """Return the tag and the content of each element."""
    elements: list[tuple[int, bytes]] = []
    while content:
        if len(content) < 2:
            raise ValueError("a certificate ends within an element")
        tag, length, start = content[0], content[1], 2
        if length >= 0x80:  # the length has that many bytes
            start += length - 0x80
            length = int.from_bytes(content[2:start], "big")
        if start + length > len(content):
            raise ValueError("a certificate ends within an element")
        elements.append((tag, content[start : start + length]))
        content = content[start + length :]
    return elements
