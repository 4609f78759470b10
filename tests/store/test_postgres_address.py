"""The address of a PostgreSQL database: what is kept of it, what is refused, and what is never shown."""

import asyncio
from collections.abc import Mapping

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.store.errors import DatabaseUnsuitableError
from fairwarning.store.postgres import open_postgres
from fairwarning.store.postgres.address import Address
from tests.postgres import empty_database


@pytest.mark.parametrize(
    "dsn", ["postgresql://fw:geheim@h1:5432,h2/fleet", "host=h1 password=geheim user=fw"]
)
def test_a_password_is_never_shown(dsn: str) -> None:
    address = Address(dsn)

    assert "geheim" not in f"{address} {address!r}"
    assert "h1" in str(address)


@pytest.mark.parametrize(
    "dsn",
    [
        "geheim",
        "host=x geheim",
        "postgresql://fw:geheim@[h1/fleet",
        pytest.param("host=x\0 password=geheim", id="what follows a NUL would be ignored"),
        pytest.param("host=x\udcff password=geheim", id="not every text can be sent"),
    ],
)
def test_an_address_that_cannot_be_read_is_not_quoted(dsn: str) -> None:
    with pytest.raises(DatabaseUnsuitableError) as refusal:
        Address(dsn)

    assert str(refusal.value) == "the address of the database cannot be read"
    assert refusal.value.__cause__ is None


def test_the_settings_of_an_address_are_kept_and_a_node_needs_a_server_that_accepts_writes() -> None:
    address = Address("host=h1,h2 connect_timeout=7 application_name=mine sslmode=verify-full")

    assert conninfo_to_dict(address.conninfo("read-write")) == {
        "host": "h1,h2",
        "connect_timeout": "7",
        "application_name": "mine",
        "sslmode": "verify-full",
        "client_encoding": "utf8",
        "target_session_attrs": "read-write",
    }


@pytest.mark.parametrize(
    "setting",
    ["target_session_attrs=read-write", "target_session_attrs=primary", "client_encoding=UTF-8"],
)
def test_an_address_may_say_what_a_node_needs_anyway(setting: str) -> None:
    name, _, value = setting.partition("=")

    async def story() -> None:
        store = await open_postgres(make_conninfo(empty_database(), **{name: value}))
        await store.close()

    asyncio.run(story())
    for dsn in (f"host=h1 {setting}", f"postgresql://h1/fleet?{setting}"):
        conninfo = conninfo_to_dict(Address(dsn).conninfo("read-write"))
        assert (conninfo["target_session_attrs"], conninfo["client_encoding"]) == ("read-write", "utf8")


WRITES = "target_session_attrs must be read-write, or left out: nodes need a server that accepts writes"


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        pytest.param("target_session_attrs=any", WRITES, id="any server may be a standby"),
        pytest.param("target_session_attrs=standby", WRITES, id="a standby accepts no writes"),
        pytest.param("target_session_attrs=prefer-standby", WRITES, id="nor does a preferred standby"),
        pytest.param("target_session_attrs=read-only", WRITES, id="nor does a session that only reads"),
        pytest.param("target_session_attrs=elsewhere", WRITES, id="there is no such session"),
        pytest.param(
            "client_encoding=latin1", "client_encoding must be utf8, or left out", id="latin1 is too small"
        ),
        pytest.param(
            "replication=database", "replication must be off, or left out", id="replication runs no SQL"
        ),
        pytest.param(
            "connect_timeout=soon", "connect_timeout must be a number of seconds", id="soon is no number"
        ),
    ],
)
def test_an_address_that_contradicts_what_a_node_needs_is_refused(setting: str, refusal: str) -> None:
    for dsn in (f"host=h1 password=geheim {setting}", f"postgresql://fw:geheim@h1/fleet?{setting}"):
        with pytest.raises(DatabaseUnsuitableError) as refused:
            Address(dsn)
        assert str(refused.value) == f"the address of the database cannot be used: {refusal}"
        assert refused.value.__cause__ is None


def test_commands_read_from_any_server_unless_the_address_asks_for_the_primary() -> None:
    assert Address("host=h1").session_for_reading == "any"
    assert Address("host=h1 target_session_attrs=primary").session_for_reading == "primary"


@pytest.mark.parametrize(
    ("environment", "dsn", "hosts", "ports"),
    [
        pytest.param({}, "host=h1,h2,h3 port=1,2,3", "h2,h3,h1", "2,3,1", id="each host has its own port"),
        pytest.param({}, "host=h1,h2 port=7", "h2,h1", "7", id="all hosts have one port"),
        pytest.param({"PGHOST": "h1,h2"}, "port=1,2", "h2,h1", "2,1", id="the environment names the hosts"),
        pytest.param({"PGHOST": "h1,h2", "PGPORT": "1,2"}, "", "h2,h1", "2,1", id="and their ports"),
        pytest.param({"PGHOST": "h1,h2"}, "host=h3 port=7", "h3", "7", id="the address takes precedence"),
    ],
)
def test_every_host_may_be_tried_first(
    environment: Mapping[str, str], dsn: str, hosts: str, ports: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    address = Address(dsn)
    conninfo = conninfo_to_dict(address.conninfo("read-write", 1))

    assert address.hosts == len(hosts.split(","))
    assert (conninfo["host"], conninfo["port"]) == (hosts, ports)
