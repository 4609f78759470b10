"""The certificates of the management API, which clients reach over TLS only.

Azure's tools accept no plain HTTP, and no public authority signs certificates for loopback. So this server
has an authority of its own, and clients are given its certificate to trust. The authority's key and
certificate stay in the data directory: clients that trust the authority keep trusting it after a restart. The
server's own certificate is issued for the names that the server has when it starts.

Several processes may share the directory, one after the other: a certificate of the same day and for the same
names is used again, so that none replaces a key which another is about to load.

An authority that would expire before the certificates it signs, or whose key does not match, is replaced.

The authority also vouches for the attested documents of the metadata API (I-16). Each process has a
certificate that signs documents and nothing else, with a key that only its memory holds.
"""

import fcntl
import logging
import os
import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from fairwarning.formats.log_messages import LogMessage
from fairwarning.private_directory import open_private_directory

log = logging.getLogger("fairwarning.arm")

CA_LIFE = timedelta(days=3650)
LIFE = timedelta(days=397)
#: The clocks of clients may be behind the server's.
_LEEWAY = timedelta(days=1)

#: How long a certificate is used again by later starts.
_REUSED = timedelta(days=1)

LOCAL = ("127.0.0.1", "::1", "localhost")

#: The names that clients expect in the certificate of an attested document; its subject says whose it is.
_METADATA_NAMES = ("metadata.azure.com", "*.metadata.azure.com")


class CertifiedKey(NamedTuple):
    """A certificate and its private key: of the authority, of the server, or of attested documents."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def sign(self, data: bytes) -> bytes:
        """Return the data with its signature and the certificate, as PKCS #7 in DER."""
        # Imported with the first document, to start the server faster: pkcs7 imports the package email.
        from cryptography.hazmat.primitives.serialization import pkcs7

        builder = pkcs7.PKCS7SignatureBuilder().set_data(data)
        builder = builder.add_signer(self.certificate, self.key, hashes.SHA256())
        options = (pkcs7.PKCS7Options.Binary, pkcs7.PKCS7Options.NoAttributes)
        return builder.sign(Encoding.DER, options)


class Certificates(NamedTuple):
    """Files: the certificate of the authority, and the chain and the key of the server."""

    ca: Path
    chain: Path
    key: Path
    #: Signs attested documents; None if the authority is another one.
    signer: CertifiedKey | None = None

    def context(self) -> ssl.SSLContext:
        """Return the TLS settings of the server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.chain, self.key)
        return context


def certificates(directory: Path, hosts: Iterable[str], now: datetime) -> Certificates:
    """Return certificates for a server with these names, signed by the stored authority or a new one.

    Raises:
        UnsafeDirectoryError: other users could read or replace the keys in the directory.
    """
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700, parents=True)
    ca, ca_key, names = directory / "ca.pem", directory / "ca-key.pem", dict.fromkeys((*LOCAL, *hosts))
    with open_private_directory(directory) as opened, _locked(opened):
        authority = _load_authority(ca, ca_key, now)
        if authority is None:
            authority = _certify("fairwarning authority", now)
            _store(opened, authority.key, ca_key, [authority.certificate], ca)
        # A purpose that no TLS client accepts from a server.
        purpose = ExtendedKeyUsageOID.EMAIL_PROTECTION
        signer = _issue(
            authority, "fairwarning attested documents (not Azure)", _METADATA_NAMES, purpose, now
        )
        chain, key = directory / "server.pem", directory / "server-key.pem"
        files = Certificates(ca=ca, chain=chain, key=key, signer=signer)
        if not _is_current(files, authority, names, now):
            server = _issue(authority, "fairwarning", names, ExtendedKeyUsageOID.SERVER_AUTH, now)
            _store(opened, server.key, key, [server.certificate, authority.certificate], chain)
        return files


@contextmanager
def _locked(directory: int) -> Iterator[None]:
    """Keep other processes from an opened directory for as long as the block lasts."""
    lock = os.open("lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _is_current(files: Certificates, authority: CertifiedKey, hosts: Iterable[str], now: datetime) -> bool:
    """Whether the files have a certificate of this day for these names, by this authority."""
    try:
        chain = x509.load_pem_x509_certificates(files.chain.read_bytes())
        key = load_pem_private_key(files.key.read_bytes(), None)
        names = chain[0].extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    issued_at = chain[0].not_valid_before_utc + _LEEWAY
    return (
        chain[1:] == [authority.certificate]
        and timedelta(0) <= now - issued_at < _REUSED
        and list(names) == [_name(host) for host in hosts]
        and key.public_key() == chain[0].public_key()
    )


def _load_authority(ca: Path, ca_key: Path, now: datetime) -> CertifiedKey | None:
    """Return the stored authority, unless it expires before a certificate that it signs now."""
    try:
        certificate = x509.load_pem_x509_certificate(ca.read_bytes())
        key = load_pem_private_key(ca_key.read_bytes(), None)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError) as problem:
        log.warning(LogMessage("authority_unreadable", path=ca, problem=problem))
        return None
    is_current = certificate.not_valid_before_utc <= now and now + LIFE <= certificate.not_valid_after_utc
    if (
        is_current
        and isinstance(key, ec.EllipticCurvePrivateKey)
        and key.public_key() == certificate.public_key()
    ):
        return CertifiedKey(certificate, key)
    log.warning(LogMessage("authority_replaced", path=ca))
    return None


def _issue(
    authority: CertifiedKey, name: str, hosts: Iterable[str], purpose: x509.ObjectIdentifier, now: datetime
) -> CertifiedKey:
    """Return a key whose certificate the authority signed, for hosts and for one purpose."""
    extensions = (
        x509.SubjectAlternativeName([_name(host) for host in hosts]),
        x509.ExtendedKeyUsage([purpose]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
    )
    return _certify(name, now, authority, extensions)


def _certify(
    common_name: str,
    now: datetime,
    authority: CertifiedKey | None = None,
    extensions: Iterable[x509.ExtensionType] = (),
) -> CertifiedKey:
    """Return a new key and its certificate; without an authority to sign it, it is an authority itself."""
    key, signs = ec.generate_private_key(ec.SECP256R1()), authority is None
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    usage = x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if authority is None else authority.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _LEEWAY)
        .not_valid_after(now + (CA_LIFE if signs else LIFE))
        .add_extension(x509.BasicConstraints(ca=signs, path_length=0 if signs else None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    return CertifiedKey(builder.sign(key if authority is None else authority.key, hashes.SHA256()), key)


def _name(host: str) -> x509.GeneralName:
    with suppress(ValueError):
        return x509.IPAddress(ip_address(host))
    return x509.DNSName(host)


def _store(
    directory: int,
    key: ec.EllipticCurvePrivateKey,
    key_path: Path,
    chain: Iterable[x509.Certificate],
    chain_path: Path,
) -> None:
    _write(directory, key_path.name, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    certificates = b"".join(link.public_bytes(Encoding.PEM) for link in chain)
    _write(directory, chain_path.name, certificates, mode=0o644)


def _write(directory: int, name: str, content: bytes, mode: int = 0o600) -> None:
    """Write a file of an opened directory atomically; other users cannot read it at any moment."""
    temporary = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with open(os.open(temporary, flags, mode, dir_fd=directory), "wb") as file:
        file.write(content)
    os.replace(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
