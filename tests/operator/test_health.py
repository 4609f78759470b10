"""``/healthz`` says whether the server keeps what it is told."""

from dataclasses import replace

from fairwarning.operator.app import create_app
from tests.engine.disk import WEB, broken
from tests.operator.operator_client import address, office


def test_a_server_that_cannot_keep_changes_is_not_healthy_until_it_can() -> None:
    stage, disk = broken()
    desk = replace(office(WEB), app=create_app(stage.engine, endpoints=address))

    sick = desk.refused("GET", "/healthz")
    disk.wrong = None
    well = desk.send("GET", "/healthz")

    assert (sick.status, sick.detail) == (503, "changes cannot be kept: disk full")
    assert (well.status_code, well.json()) == (200, {"status": "ok"})
