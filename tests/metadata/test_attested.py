"""The attested document: what it says, who signs it, and what a verifier finds."""

import base64
import json
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization.pkcs7 import load_der_pkcs7_certificates
from cryptography.x509.oid import ExtendedKeyUsageOID

from fairwarning.arm.tls import Certificates, certificates
from fairwarning.metadata.attested import Attestation
from tests.guest import Cloud, cloud, error_of

PATH = "/metadata/attested/document"
NEWEST = "2025-04-07"
NOW = datetime(2026, 11, 16, 12, 30, 5, tzinfo=UTC)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return certificates(tmp_path_factory.mktemp("arm"), (), datetime.now(UTC))


@pytest.fixture
def web(issued: Certificates) -> Iterator[Cloud]:
    signer = issued.signer
    assert signer is not None

    async def sign(data: bytes) -> bytes:
        return signer.sign(data)

    with cloud(attestation=Attestation(sign, lambda: NOW)) as fleet:
        yield fleet


def signature(web: Cloud, query: str = f"api-version={NEWEST}") -> bytes:
    """Return the signed document in the answer, in DER."""
    reply = web.get(path=PATH, query=query)
    assert reply.status == 200, reply
    answer = json.loads(reply.body)
    assert list(answer) == ["encoding", "signature"]
    assert answer["encoding"] == "pkcs7"
    return base64.b64decode(answer["signature"], validate=True)


def content(signed: bytes) -> bytes:
    """Return the data inside a signed document."""
    return signed[signed.index(b"{") : signed.index(b'"}', signed.index(b'"vmId"')) + 2]


@pytest.mark.rule("I-16")
def test_the_document_describes_the_machine_and_its_own_life(web: Cloud) -> None:
    vm_id = web.get(path="/metadata/instance/compute/vmId", query=f"api-version={NEWEST}&format=text").body

    data = content(signature(web, f"api-version={NEWEST}&nonce=1234567890"))

    assert data.startswith(b'{"licenseType":"","nonce":"1234567890","plan":')
    assert json.loads(data) == {
        "licenseType": "",
        "nonce": "1234567890",
        "plan": {"name": "", "product": "", "publisher": ""},
        "sku": "22_04-lts-gen2",
        "subscriptionId": "00000000-0000-0000-0000-000000000001",
        "timeStamp": {"createdOn": "11/16/26 12:30:05 -0000", "expiresOn": "11/16/26 18:30:05 -0000"},
        "vmId": vm_id.decode(),
    }


@pytest.mark.rule("I-16")
def test_without_a_nonce_the_time_of_expiry_takes_its_place(web: Cloud) -> None:
    assert json.loads(content(signature(web)))["nonce"] == "20261116-183005"


@pytest.mark.rule("I-16")
@pytest.mark.parametrize(
    ("version", "added"),
    [
        pytest.param("2018-10-01", set(), id="the first version"),
        pytest.param("2019-04-30", {"subscriptionId"}, id="2019-04-30"),
        pytest.param("2019-11-01", {"subscriptionId", "sku"}, id="2019-11-01"),
        pytest.param("2020-09-01", {"subscriptionId", "sku", "licenseType"}, id="2020-09-01"),
    ],
)
def test_later_versions_add_members(web: Cloud, version: str, added: set[str]) -> None:
    members = set(json.loads(content(signature(web, f"api-version={version}"))))

    assert members == {"nonce", "plan", "timeStamp", "vmId"} | added


@pytest.mark.rule("I-16")
def test_the_server_s_own_authority_vouches_for_the_signature(web: Cloud, issued: Certificates) -> None:
    signed = signature(web)

    (certificate,) = load_der_pkcs7_certificates(signed)
    authority = x509.load_pem_x509_certificate(issued.ca.read_bytes())
    certificate.verify_directly_issued_by(authority)
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    # The signature is the last value of the structure.
    (start,) = (n for n in range(66, 74) if signed[-n - 2 : -n] == bytes((4, n)))
    key.verify(signed[-start:], content(signed), ec.ECDSA(hashes.SHA256()))


@pytest.mark.rule("I-16")
def test_the_certificate_says_that_it_is_not_azure_s_and_cannot_serve_tls(web: Cloud) -> None:
    (certificate,) = load_der_pkcs7_certificates(signature(web))

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    purposes = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert certificate.subject.rfc4514_string() == "CN=fairwarning attested documents (not Azure)"
    assert names.get_values_for_type(x509.DNSName) == ["metadata.azure.com", "*.metadata.azure.com"]
    assert list(purposes) == [ExtendedKeyUsageOID.EMAIL_PROTECTION]


@pytest.mark.rule("I-16")
@pytest.mark.rule("I-07")
@pytest.mark.parametrize(
    ("query", "method", "status", "message"),
    [
        pytest.param("", "GET", 400, "api-version", id="no version"),
        pytest.param("api-version=2018-04-02", "GET", 400, "api-version", id="a version before the first"),
        pytest.param(f"api-version={NEWEST}", "POST", 405, "not allowed", id="another method"),
        pytest.param(f"api-version={NEWEST}&nonce={'1' * 33}", "GET", 400, "nonce", id="a long nonce"),
    ],
)
def test_requests_are_checked_as_everywhere(
    web: Cloud, query: str, method: str, status: int, message: str
) -> None:
    reply = web.get(path=PATH, query=query, method=method)

    assert reply.status == status
    assert message in error_of(reply)


@pytest.mark.rule("I-16")
def test_a_server_without_an_authority_has_no_attested_documents() -> None:
    async def refuse(data: bytes) -> None:
        return None

    with cloud(attestation=Attestation(refuse, lambda: NOW)) as web:
        status = web.get(path=PATH, query=f"api-version={NEWEST}").status

    assert status == 404


@pytest.mark.slow
@pytest.mark.needs("openssl")
@pytest.mark.rule("I-16")
def test_openssl_verifies_the_signature(web: Cloud, issued: Certificates, tmp_path: Path) -> None:
    (tmp_path / "signature").write_bytes(signature(web, f"api-version={NEWEST}&nonce=1234567890"))
    (tmp_path / "other.pem").write_bytes(_another_authority(tmp_path))
    command = ["openssl", "smime", "-verify", "-inform", "DER", "-in", str(tmp_path / "signature"), "-CAfile"]

    good = subprocess.run([*command, str(issued.ca)], capture_output=True, check=False)
    bad = subprocess.run([*command, str(tmp_path / "other.pem")], capture_output=True, check=False)

    assert (good.returncode, json.loads(good.stdout)["nonce"]) == (0, "1234567890")
    assert bad.returncode != 0


def _another_authority(directory: Path) -> bytes:
    return certificates(directory / "other", (), datetime.now(UTC)).ca.read_bytes()
