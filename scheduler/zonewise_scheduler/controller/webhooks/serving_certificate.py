"""The certificate of the webhooks: its own CA, the certificate that the CA signs, and the renewal of both.

Invariant: a certificate in use is signed by a CA that the API server already trusts.

1. A CA is added to the bundle before it signs anything, and remains in it until it expires.
2. The API server trusts the bundle within `CA_SETTLE_TIME`: the leader writes it into the webhook configurations.
3. A certificate is signed by the newest CA, once that CA is older than `CA_SETTLE_TIME`; until then it is not renewed.
4. A CA outlives each certificate that it signs, since it signs none in its last `CA_MARGIN`, and CA_MARGIN > CERT_LIFE.

Exception: if no valid certificate remains, a new CA signs at once. The API server then trusts it after the next write.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, Name

_DAY = datetime.timedelta(days=1)
CERT_LIFE = 365 * _DAY
CERT_MARGIN = 120 * _DAY
"""A certificate with less remaining time is renewed."""
CA_LIFE = 3650 * _DAY
CA_MARGIN = 2 * 365 * _DAY
"""A CA with less remaining time gets a successor."""
CA_SETTLE_TIME = _DAY
"""Time for which a CA is in the bundle before it signs."""
CLOCK_SKEW = datetime.timedelta(hours=1)
"""Certificates are valid from this long ago, for API servers whose clocks are behind."""


class CertificateBundle(NamedTuple):
    """The data of the Secret, in PEM format. It includes the CA's key, so that a renewal needs no new trust."""

    ca: bytes
    """Certificates of all trusted CAs, with the newest last."""
    ca_key: bytes
    """Private key of the newest CA."""
    cert: bytes
    key: bytes


def next_bundle(bundle: CertificateBundle | None, names: Sequence[str], now: datetime.datetime) -> CertificateBundle:
    """Return the bundle to use from now on; the same bundle if nothing is due.

    `bundle`: None if there is none; an unreadable bundle is replaced. `names`: the DNS names of the certificate.
    """
    if bundle is None or not _is_usable(bundle, names, now):
        return _new_bundle(names, now)
    authorities, cert = _read_certificates(bundle.ca), _read_certificates(bundle.cert)[0]
    newest = authorities[-1]
    if newest.not_valid_after_utc - now < CA_MARGIN:
        added, key = _issue_authority(now)
        valid = [authority for authority in authorities if authority.not_valid_after_utc > now]
        return bundle._replace(ca=b"".join(map(_pem, (*valid, added))), ca_key=_key_pem(key))
    settled = now - newest.not_valid_before_utc - CLOCK_SKEW >= CA_SETTLE_TIME
    if settled and cert.not_valid_after_utc - now < CERT_MARGIN:
        issued, key = _issue_certificate(names, newest, _read_key(bundle.ca_key), now)
        return bundle._replace(cert=_pem(issued), key=_key_pem(key))
    return bundle


def _is_usable(bundle: CertificateBundle, names: Sequence[str], now: datetime.datetime) -> bool:
    """Return whether the certificate is valid, matches its key and the names, and is signed by a CA of the bundle."""
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

    try:
        authorities, cert = _read_certificates(bundle.ca), _read_certificates(bundle.cert)[0]
        fits = (
            _read_key(bundle.key).public_key() == cert.public_key()
            and _read_key(bundle.ca_key).public_key() == authorities[-1].public_key()
        )
        alternatives = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        for authority in authorities:
            if authority.subject == cert.issuer and authority.not_valid_after_utc > now:
                cert.verify_directly_issued_by(authority)
                break
        else:
            return False
    except (ValueError, TypeError, IndexError, x509.ExtensionNotFound, InvalidSignature, UnsupportedAlgorithm):
        return False
    valid = cert.not_valid_before_utc <= now < cert.not_valid_after_utc
    return fits and valid and set(names) <= set(alternatives.get_values_for_type(x509.DNSName))


def _new_bundle(names: Sequence[str], now: datetime.datetime) -> CertificateBundle:
    authority, ca_key = _issue_authority(now)
    cert, key = _issue_certificate(names, authority, ca_key, now)
    return CertificateBundle(_pem(authority), _key_pem(ca_key), _pem(cert), _key_pem(key))


def _issue_authority(now: datetime.datetime) -> tuple[Certificate, EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    # each CA has a unique name, so that the right CA is selected if the bundle contains several
    name = _name(f"zonewise webhooks {x509.random_serial_number():x}"[:64])
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + CA_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return builder.sign(key, hashes.SHA256()), key


def _issue_certificate(
    names: Sequence[str], authority: Certificate, ca_key: EllipticCurvePrivateKey, now: datetime.datetime
) -> tuple[Certificate, EllipticCurvePrivateKey]:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    builder = (
        x509.CertificateBuilder(authority.subject, _name(names[0][:64]), key.public_key(), x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + CERT_LIFE)
        .add_extension(alternatives, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(issuer_key, critical=False)
    )
    return builder.sign(ca_key, hashes.SHA256()), key


def _name(common_name: str) -> Name:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _read_certificates(pem: bytes) -> list[Certificate]:
    from cryptography import x509

    return x509.load_pem_x509_certificates(pem)


def _read_key(pem: bytes) -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(pem, None)
    if not isinstance(key, EllipticCurvePrivateKey):
        raise TypeError("not a key of an elliptic curve")
    return key


def _pem(cert: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return cert.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
