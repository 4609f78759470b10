"""The file of ``serve``: what it means."""

import json
import sys
import tomllib
import zoneinfo
from collections.abc import Iterator
from datetime import UTC, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import jsonschema_rs
import msgspec
import pytest

from fairwarning.arm.tls import certificates
from fairwarning.config import TlsSettings
from fairwarning.config.describe import describe
from fairwarning.config.serve_file import OverdueTable, schema
from fairwarning.config.serve_settings import GENERATED_KEYS, load
from fairwarning.core.causes import CAUSES
from fairwarning.core.model import MachineRef, ScopeId, ScopeKind, VmName
from fairwarning.core.policy import DEFAULT_RETENTION, Retention
from tests.config.files import SQLITE, loaded, problems, secret, write
from tests.conftest import NOON

ROOT = Path(__file__).parents[2]


def test_the_least_file_serves_operators_on_loopback(tmp_path: Path) -> None:
    settings = load(write(tmp_path, SQLITE), {}).settings

    assert settings.operator == ("127.0.0.1", 8080)
    assert (settings.arm, settings.listen, settings.token) == (None, (), None)
    assert settings.data == tmp_path / "data"
    assert (settings.driver, settings.retention) == ("external", DEFAULT_RETENTION)
    assert settings.serve is not None
    assert settings.serve.inventory == ()


def test_impacts_are_overdue_after_an_hour_unless_their_cause_has_another_limit(tmp_path: Path) -> None:
    text = f'{SQLITE}[overdue]\ndefault = "90m"\nhost-reboot = "2h"\nplatform-redeploy = "1d"'

    default = load(write(tmp_path, SQLITE), {}).settings.overdue
    limits = load(write(tmp_path, text), {"FAIRWARNING_OVERDUE__PREDICTED_FAILURE": "3h"}).settings.overdue

    assert {cause: default.limit(cause) for cause in CAUSES} == dict.fromkeys(CAUSES, timedelta(hours=1))
    assert limits.limit("freeze") == timedelta(minutes=90)
    assert limits.limit("host-reboot") == timedelta(hours=2)
    assert limits.limit("platform-redeploy") == timedelta(days=1)
    assert limits.limit("predicted-failure") == timedelta(hours=3)


def test_operators_write_instants_in_utc_or_in_the_zone_of_the_file(tmp_path: Path) -> None:
    assert load(write(tmp_path, SQLITE), {}).settings.zone is UTC
    assert loaded(tmp_path, 'zone = "Europe/Berlin"').settings.zone == ZoneInfo("Europe/Berlin")


def test_what_a_file_means_includes_its_zone(tmp_path: Path) -> None:
    meaning = dict(describe(loaded(tmp_path, 'zone = "Europe/Berlin"')))

    assert meaning["time zone"] == "Europe/Berlin, for instants that operators write without an offset"


@pytest.mark.parametrize(
    ("name", "suggestion"),
    [
        pytest.param("Mars/Olympus", "", id="no such zone"),
        pytest.param("europe/berlin", " (did you mean Europe/Berlin?)", id="in lower case"),
        pytest.param("+01:00", "", id="an offset"),
        pytest.param("../../etc/passwd", "", id="a file"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_an_unknown_zone_is_refused(tmp_path: Path, name: str, suggestion: str) -> None:
    refusals = problems(tmp_path, f'zone = "{name}"\n{SQLITE}')

    assert refusals == [f"fleet.toml: zone: unknown time zone {name!r}{suggestion}"]


@pytest.fixture
def no_zones(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hide the time zones of the system and those of the package tzdata."""
    zoneinfo.reset_tzpath(to=())
    monkeypatch.setitem(sys.modules, "tzdata", None)
    yield
    zoneinfo.reset_tzpath()


@pytest.mark.usefixtures("no_zones")
def test_a_zone_needs_the_time_zone_data_of_the_machine_and_utc_does_not(tmp_path: Path) -> None:
    refusals = problems(tmp_path, f'zone = "Europe/Berlin"\n{SQLITE}')

    assert refusals == [
        "fleet.toml: zone: 'Europe/Berlin' cannot be looked up: install tzdata, the time zone data"
    ]
    assert loaded(tmp_path, 'zone = "UTC"').settings.zone is UTC


def test_every_cause_can_have_a_limit_after_which_it_is_overdue() -> None:
    keys = [field.encode_name for field in msgspec.structs.fields(OverdueTable)]

    assert keys == ["default", *CAUSES]


def test_machines_of_a_set_share_a_scope_and_others_are_standalone(tmp_path: Path) -> None:
    text = """
    [[set]]
    name = "web"
    terminate_notice = "10m"
    [[machine]]
    name = "w1"
    set = "web"
    host = "rack1"
    update_domain = 2
    address = "10.0.0.1"
    [[machine]]
    name = "db"
    address = ["10.0.0.2", "::ffff:10.0.0.3"]
    size = "large"
    location = "north"
    tags = { team = "data" }
    """

    serve = loaded(tmp_path, text).settings.serve

    assert serve is not None
    web, db = serve.inventory
    assert (web.facts.id, web.facts.kind, web.facts.update_domains) == ("web", ScopeKind.AVAILABILITY_SET, 5)
    assert web.facts.model.terminate_notice == timedelta(minutes=10)
    assert [(one.name, one.host, one.update_domain) for one in web.machines] == [("w1", "rack1", 2)]
    assert (db.facts.kind, db.machines[0].size, db.machines[0].location) == (
        ScopeKind.STANDALONE,
        "large",
        "north",
    )
    assert db.machines[0].tags == (("team", "data"),)
    db_ref = MachineRef(ScopeId("db"), VmName("db"))
    assert serve.guests == {"10.0.0.1": web.machines[0].ref, "10.0.0.2": db_ref, "10.0.0.3": db_ref}


def test_the_machines_of_each_zone_share_a_scope(tmp_path: Path) -> None:
    text = """
    [[set]]
    name = "web"
    kind = "scale-set"
    group = "prod"
    [[machine]]
    name = "web_0"
    set = "web"
    zone = "1"
    [[machine]]
    name = "web_7"
    set = "web"
    zone = "2"
    """

    serve = loaded(tmp_path, text).settings.serve

    assert serve is not None
    assert [(scope.facts.id, scope.facts.zone) for scope in serve.inventory] == [
        ("prod/web.zone1", "1"),
        ("prod/web.zone2", "2"),
    ]
    assert [scope.machines[0].instance for scope in serve.inventory] == ["0", "7"]


def test_a_csv_file_lists_machines(tmp_path: Path) -> None:
    rows = "name,address,set,fault_domain,spot,tags\n"
    write(tmp_path, rows + "w1,10.0.0.1 10.0.0.2,web,1,,a=1;b=2\nbatch,,,,true,\n", "machines.csv")
    text = '[inventory]\nfile = "machines.csv"\n[[set]]\nname = "web"'

    serve = loaded(tmp_path, text).settings.serve

    assert serve is not None
    web, batch = serve.inventory
    assert web.machines[0].fault_domain == 1
    assert web.machines[0].tags == (("a", "1"), ("b", "2"))
    assert batch.machines[0].spot
    assert sorted(serve.guests) == ["10.0.0.1", "10.0.0.2"]


def test_the_machines_of_a_set_can_be_numbered(tmp_path: Path) -> None:
    serve = loaded(tmp_path, '[[set]]\nname = "app"\ncount = 2').settings.serve

    assert serve is not None
    assert [one.name for scope in serve.inventory for one in scope.machines] == ["app-0", "app-1"]


def test_a_machine_keeps_its_domain_when_other_machines_come_and_go(tmp_path: Path) -> None:
    def domains(*names: str) -> dict[str, tuple[int, int]]:
        tables = "".join(f'[[machine]]\nname = "{name}"\nset = "web"\n' for name in names)
        serve = loaded(tmp_path, f'[[set]]\nname = "web"\n{tables}').settings.serve
        assert serve is not None
        return {one.name: (one.update_domain, one.fault_domain) for one in serve.inventory[0].machines}

    assert domains("a", "m7", "z")["m7"] == domains("m7")["m7"] == (2, 1)
    assert domains("a", "z")["z"] == domains("z")["z"]


def test_variables_replace_keys_of_the_file(tmp_path: Path) -> None:
    variables = {
        "FAIRWARNING__DRIVER": "simulated",
        "FAIRWARNING_OPERATOR__LISTEN": "127.0.0.1:9000",
        "FAIRWARNING_METADATA__LISTEN": "127.0.0.1:80, 127.0.0.2:80",
        "FAIRWARNING_LIMITS__STREAMS": "7",
        "FAIRWARNING_RETENTION__SIZE": "",
        "FAIRWARNING_URL": "http://elsewhere",
    }

    settings = loaded(tmp_path, '[[machine]]\nname = "a"\naddress = "10.0.0.1"', variables).settings

    assert (settings.driver, settings.operator) == ("simulated", ("127.0.0.1", 9000))
    assert settings.listen == (("127.0.0.1", 80), ("127.0.0.2", 80))
    assert settings.limits.streams == 7
    assert settings.retention == Retention(age=timedelta(days=30))


def test_a_password_may_have_any_character(tmp_path: Path) -> None:
    secret(tmp_path, "dsn", "postgresql://ann:gr\u00fcn@db/fleet\n")

    serve = load(write(tmp_path, '[store]\nkind = "postgres"\ndsn_file = "dsn"'), {}).settings.serve

    assert serve is not None
    assert serve.dsn == "postgresql://ann:gr\u00fcn@db/fleet"


@pytest.mark.rule("R-29")
@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        pytest.param("", 10, id="by default"),
        pytest.param('stale_after = "3s"', 3, id="the shortest"),
        pytest.param('stale_after = "29s"', 29, id="the longest"),
    ],
)
def test_guests_are_answered_for_a_while_without_news_from_the_database(
    tmp_path: Path, line: str, seconds: int
) -> None:
    text = f'[store]\nkind = "postgres"\ndsn = "host=db"\n{line}'

    assert load(write(tmp_path, text), {}).settings.stale_after == timedelta(seconds=seconds)


def test_tokens_and_certificates_are_files_beside_the_file(tmp_path: Path) -> None:
    secret(tmp_path, "operator.token", "operator-token-of-32-characters.\n")
    secret(tmp_path, "management.token", "management-token-of-32-character")
    write(tmp_path, "pem", "chain.pem")
    secret(tmp_path, "key.pem", "pem")
    text = """
    [operator]
    listen = "0.0.0.0:8080"
    token_file = "operator.token"
    [management]
    listen = "[::]:8443"
    token_file = "management.token"
    [tls]
    certificate = "chain.pem"
    key = "key.pem"
    """

    settings = loaded(tmp_path, text).settings

    assert settings.token == "operator-token-of-32-characters."
    assert settings.arm == ("::", 8443)
    assert settings.serve is not None
    assert settings.management_token == settings.serve.management_token == "management-token-of-32-character"
    assert settings.serve.tls == TlsSettings(certificate=tmp_path / "chain.pem", key=tmp_path / "key.pem")
    assert settings.serve.operator_tls
    assert "operator-token" not in repr(settings)
    assert "management-token" not in repr(settings)


@pytest.mark.parametrize("files", [(), ("ca-key.pem", "server-key.pem")], ids=["not yet", "generated"])
def test_the_directory_of_an_authority_may_be_empty_or_have_private_keys(
    tmp_path: Path, files: tuple[str, ...]
) -> None:
    (tmp_path / "authority").mkdir()
    for name in files:
        secret(tmp_path / "authority", name)

    serve = loaded(tmp_path, '[tls]\ndirectory = "authority"').settings.serve

    assert serve is not None
    assert serve.tls == TlsSettings(directory=tmp_path / "authority")


@pytest.mark.parametrize(
    ("text", "place", "directory"),
    [
        pytest.param('[tls]\ndirectory = "authority"', "[tls] directory", "authority", id="of the settings"),
        pytest.param("[management]", "[store] path", "data/arm", id="below the data"),
    ],
)
def test_a_directory_that_is_not_safe_for_keys_is_refused(
    tmp_path: Path, text: str, place: str, directory: str
) -> None:
    path = tmp_path / directory
    path.parent.mkdir(exist_ok=True)
    loaded(tmp_path, text)

    path.symlink_to("/nowhere")
    link = problems(tmp_path, f"{text}\n{SQLITE}")
    path.unlink()
    path.mkdir()
    path.chmod(0o777)
    shared = problems(tmp_path, f"{text}\n{SQLITE}")

    unsafe = f"fleet.toml: {place}: {directory} cannot hold keys"
    assert link == [f"{unsafe}: it is a symbolic link"]
    assert shared == [f"{unsafe}: other users can write to it (mode 0777): chmod go-w {directory}"]


def test_every_key_that_a_server_generates_is_checked(tmp_path: Path) -> None:
    certificates(tmp_path, (), NOON)

    keys = {path.name for path in tmp_path.iterdir() if b"PRIVATE KEY" in path.read_bytes()}
    assert keys == set(GENERATED_KEYS)


def test_the_schema_is_kept_beside_the_documentation() -> None:
    kept = (ROOT / "docs/serve.schema.json").read_text()

    assert kept == json.dumps(schema(), indent=2) + "\n"


def test_the_schema_accepts_a_file_and_refuses_an_unknown_key() -> None:
    document = tomllib.loads(f'{SQLITE}[[machine]]\nname = "a"\naddress = "10.0.0.1"')

    jsonschema_rs.validate(schema(), document)
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema(), {**document, "drivr": "external"})
