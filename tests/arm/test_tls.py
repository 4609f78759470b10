"""Certificates: clients that trust the authority trust the server under all its names."""

import ipaddress
import os
import ssl
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from fairwarning.arm.tls import CA_LIFE, LIFE, Certificates, certificates
from fairwarning.private_directory import UnsafeDirectoryError

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)


def leaf(files: Certificates) -> x509.Certificate:
    return x509.load_pem_x509_certificates(files.chain.read_bytes())[0]


def names(files: Certificates) -> set[str]:
    san = leaf(files).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {*san.get_values_for_type(x509.DNSName), *map(str, san.get_values_for_type(x509.IPAddress))}


def shake_hands(files: Certificates, host: str) -> None:
    """Do a TLS handshake in memory with a strict client; raises if the client does not trust the server."""
    context = ssl.create_default_context(cafile=str(files.ca))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname=host)
    server = files.context().wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "azure.lan", "10.0.0.7"])
def test_a_client_that_trusts_the_authority_trusts_the_server_under_its_names(
    tmp_path: Path, host: str
) -> None:
    files = certificates(tmp_path, ["azure.lan", "10.0.0.7"], datetime.now(UTC))

    shake_hands(files, host)


def test_a_name_that_the_server_does_not_have_is_not_trusted(tmp_path: Path) -> None:
    files = certificates(tmp_path, ["127.0.0.1"], datetime.now(UTC))

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(files, "azure.lan")


def test_keys_are_for_their_owner_alone(tmp_path: Path) -> None:
    files = certificates(tmp_path / "arm", ["127.0.0.1"], NOON)

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in files.ca.parent.iterdir()}
    assert {name: mode for name, mode in modes.items() if "key" in name} == {
        "ca-key.pem": 0o600,
        "server-key.pem": 0o600,
    }
    assert stat.S_IMODE(files.ca.parent.stat().st_mode) == 0o700


def test_no_key_is_written_to_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / "arm").symlink_to("elsewhere")
    (tmp_path / "lost").symlink_to("nowhere")

    for name in ("arm", "lost"):
        with pytest.raises(UnsafeDirectoryError) as refused:
            certificates(tmp_path / name, ["127.0.0.1"], NOON)
        assert str(refused.value) == f"{tmp_path / name} cannot hold keys: it is a symbolic link"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["arm", "elsewhere", "lost"]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o1777, 0o720])
def test_no_key_is_written_to_a_directory_that_other_users_can_change(tmp_path: Path, mode: int) -> None:
    directory = tmp_path / "arm"
    directory.mkdir()
    directory.chmod(mode)

    with pytest.raises(UnsafeDirectoryError) as refused:
        certificates(directory, ["127.0.0.1"], NOON)

    assert str(refused.value) == (
        f"{directory} cannot hold keys: other users can write to it (mode {mode:04o}): chmod go-w {directory}"
    )
    assert not any(directory.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_no_key_is_written_to_the_directory_of_another_user(tmp_path: Path) -> None:
    directory = tmp_path / "arm"
    directory.mkdir(mode=0o700)
    os.chown(directory, 65534, 65534)

    with pytest.raises(UnsafeDirectoryError, match="cannot hold keys: it belongs to another user"):
        certificates(directory, ["127.0.0.1"], NOON)


def test_a_file_is_no_directory_for_keys(tmp_path: Path) -> None:
    (tmp_path / "arm").touch()

    with pytest.raises(UnsafeDirectoryError, match="cannot hold keys: Not a directory"):
        certificates(tmp_path / "arm", ["127.0.0.1"], NOON)


def test_a_link_among_the_keys_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    (tmp_path / "arm").mkdir(mode=0o700)
    for name in ("ca-key.pem", ".ca-key.pem.new", "server-key.pem"):
        (tmp_path / "arm" / name).symlink_to("../mine")

    files = certificates(tmp_path / "arm", ["127.0.0.1"], NOON)

    assert (tmp_path / "mine").read_bytes() == b""
    assert not files.key.is_symlink()


def test_the_authority_stays_the_same_when_the_server_is_called_something_else(tmp_path: Path) -> None:
    first = certificates(tmp_path, ["127.0.0.1"], NOON)
    trusted = first.ca.read_bytes()

    second = certificates(tmp_path, ["azure.lan"], NOON + timedelta(days=1))

    assert second.ca.read_bytes() == trusted
    assert names(second) == {"127.0.0.1", "::1", "localhost", "azure.lan"}


def test_a_server_that_is_started_years_later_has_a_certificate_of_that_day(tmp_path: Path) -> None:
    certificates(tmp_path, ["127.0.0.1"], NOON)
    later = NOON + timedelta(days=1000)

    files = certificates(tmp_path, ["127.0.0.1"], later)

    assert leaf(files).not_valid_after_utc == later + LIFE


def test_processes_that_share_a_directory_load_one_certificate(tmp_path: Path) -> None:
    first = certificates(tmp_path, ("a.test",), NOON).chain.read_bytes()
    second = certificates(tmp_path, ("a.test",), NOON + timedelta(hours=23)).chain.read_bytes()
    another = certificates(tmp_path, ("b.test",), NOON).chain.read_bytes()

    assert first == second
    assert another != first


def test_an_authority_that_would_run_out_first_is_replaced(tmp_path: Path) -> None:
    before = certificates(tmp_path, ["127.0.0.1"], NOON).ca.read_bytes()

    files = certificates(tmp_path, ["127.0.0.1"], NOON + CA_LIFE - LIFE + timedelta(days=1))

    assert files.ca.read_bytes() != before


@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem"])
@pytest.mark.parametrize("content", [pytest.param(None, id="missing"), pytest.param(b"mud", id="damaged")])
def test_an_authority_of_which_half_is_lost_is_replaced(
    tmp_path: Path, name: str, content: bytes | None
) -> None:
    certificates(tmp_path, ["127.0.0.1"], datetime.now(UTC))
    if content is None:
        (tmp_path / name).unlink()
    else:
        (tmp_path / name).write_bytes(content)

    files = certificates(tmp_path, ["127.0.0.1"], datetime.now(UTC))

    shake_hands(files, "127.0.0.1")


def test_a_key_of_another_authority_is_not_used(tmp_path: Path) -> None:
    certificates(tmp_path / "a", [], datetime.now(UTC))
    other = certificates(tmp_path / "b", [], datetime.now(UTC))
    (tmp_path / "a" / "ca.pem").write_bytes(other.ca.read_bytes())

    files = certificates(tmp_path / "a", [], datetime.now(UTC))

    shake_hands(files, "localhost")


def test_addresses_are_written_as_addresses(tmp_path: Path) -> None:
    files = certificates(tmp_path, ["10.0.0.7"], NOON)

    san = leaf(files).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert ipaddress.ip_address("10.0.0.7") in san.get_values_for_type(x509.IPAddress)
