"""Every configuration and every database address of a page is accepted by the program that it is for."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fairwarning.agent.main import main as agent
from fairwarning.check.scenario import parse_scenario
from fairwarning.store.postgres.address import Address
from tests.cli.server import call
from tests.config.files import secret
from tests.pages import ROOT, pages
from tests.postgres import shared_dsn

#: The tables that tell what a file is for: a server, an agent, or a scenario of ``check``.
TABLES = {"serve": {"store"}, "agent": {"agent", "rule"}, "check": {"fleet"}}

#: A connection string or a URI of PostgreSQL.
DSN = re.compile(r"""postgres(?:ql)?://[^\s"'`]+|(?<![\w-])host=[^\n"`]+""")

#: Where a database is; everything else of an address is about the connection.
PLACE = ("host", "hostaddr", "port", "user", "password", "dbname")


def files() -> Iterator[tuple[str, str]]:
    """Yield the settings that pages print and that the repository has, each with its place."""
    for page in pages():
        for block in page.blocks:
            if block.language == "toml":
                yield f"{block.page}:{block.line}", block.text
    for folder in ("examples", "packaging"):
        for path in sorted((ROOT / folder).rglob("*.toml")):
            yield str(path.relative_to(ROOT)), path.read_text()


FILES = dict(files())
DSNS = {
    f"{page.path}:{page.text.count(chr(10), 0, match.start()) + 1}": match[0]
    for page in pages()
    for match in DSN.finditer(page.text)
}


def names(place: str) -> str:
    return place


def for_command(command: str) -> list[str]:
    """Return the places of the files that are for a command."""
    return [place for place, text in FILES.items() if TABLES[command] & tomllib.loads(text).keys()]


def in_folder(folder: Path, text: str) -> str:
    """Return the settings with all paths in a folder, in which secrets and inventories are created."""
    for key, name in re.findall(r'^(\w+) = "([^"]+)"', text, re.MULTILINE):
        if key == "file" or key.endswith("_file"):
            path = folder / name.lstrip("/")
            path.parent.mkdir(parents=True, exist_ok=True)
            content = {"dsn_file": "host=database", "file": "name,address\na,10.0.0.9\n"}.get(key, "x" * 32)
            secret(path.parent, path.name, content)
    return re.sub(r' = "/', f' = "{folder}/', text)


def test_every_file_is_for_a_command() -> None:
    places = [place for command in TABLES for place in for_command(command)]

    assert len(FILES) > 15
    assert sorted(places) == sorted(FILES)


@pytest.mark.parametrize("place", for_command("serve"), ids=names)
def test_serve_accepts_the_file(place: str, tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(in_folder(tmp_path, FILES[place]))

    done = call("serve", "--check", str(path))

    assert (done.code, done.stderr) == (0, "")


@pytest.mark.parametrize("place", for_command("agent"), ids=names)
def test_the_agent_accepts_the_file(place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(FILES[place])

    agent(["check", "--config", str(path)])

    # The programs of the examples are not on this machine.
    problems = [line for line in capsys.readouterr().err.splitlines() if not line.endswith(" not found")]
    assert problems == []


@pytest.mark.parametrize("place", for_command("check"), ids=names)
def test_check_accepts_the_scenario(place: str) -> None:
    parse_scenario(place, tomllib.loads(FILES[place]))


@pytest.mark.parametrize("place", DSNS, ids=names)
def test_a_node_can_connect_with_the_settings_of_the_address(place: str) -> None:
    settings = conninfo_to_dict(DSNS[place])
    server = conninfo_to_dict(shared_dsn())
    hosts = str(settings.get("host", "")).count(",") + 1
    here = {name: server.get(name) for name in PLACE} | {"host": ",".join([str(server["host"])] * hosts)}
    address = Address(make_conninfo("", **settings | here))

    with psycopg.connect(address.conninfo("read-write")) as connection:
        ((read_only,),) = connection.execute("SHOW transaction_read_only").fetchall()

    assert read_only == "off"


def test_the_addresses_of_the_pages_are_found() -> None:
    assert len(DSNS) > 2
    assert any(place.startswith("docs/guides/high-availability.md:") for place in DSNS)
