"""``/healthz`` says whether the server can store changes."""

from dataclasses import replace

from fairwarning.control.control import Control
from fairwarning.operator.app import create_app
from tests.engine.disk import WEB, broken
from tests.operator.operator_client import address, operator_client


def test_a_server_that_cannot_store_changes_is_unhealthy_until_it_can() -> None:
    stage, disk = broken()
    client = replace(operator_client(WEB), app=create_app(Control(stage.engine), endpoints=address))

    unhealthy = client.refused("GET", "/healthz")
    disk.wrong = None
    healthy = client.send("GET", "/healthz")

    assert (unhealthy.status, unhealthy.detail) == (503, "changes cannot be stored: disk full")
    assert (healthy.status_code, healthy.json()) == (200, {"status": "ok"})
