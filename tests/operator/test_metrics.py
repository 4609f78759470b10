"""The metrics of the server."""

from prometheus_client.parser import text_string_to_metric_families

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import ScopeKind
from tests.operator.operator_client import OperatorTestClient, operator_client

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)


def metric_values(client: OperatorTestClient) -> dict[tuple[str, ...], float]:
    """Return every value by its metric and label values."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(client.get("/metrics").decode())
        for sample in family.samples
    }


def test_machines_and_scopes_are_counted_by_kind() -> None:
    values = metric_values(operator_client(WEB, DB))

    assert values["fairwarning_machines", "scale-set"] == 3
    assert values["fairwarning_machines", "standalone"] == 1
    assert values["fairwarning_scopes", "standalone"] == 1


def test_pending_events_are_counted_by_type_and_status() -> None:
    client = operator_client(WEB)
    client.cause("restart", "web_0")
    client.cause("restart", "web_1")
    client.cause("redeploy", "web_2")

    values = metric_values(client)

    assert values["fairwarning_events", "Reboot", "Scheduled"] == 2
    assert values["fairwarning_events", "Redeploy", "Scheduled"] == 1


def test_the_journal_is_counted() -> None:
    client = operator_client(WEB)
    before = metric_values(client)["fairwarning_journal_lines_total",]

    client.cause("restart", "web_0")

    assert metric_values(client)["fairwarning_journal_lines_total",] > before


def test_the_response_has_the_media_type_of_prometheus() -> None:
    response = operator_client(WEB).send("GET", "/metrics")

    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
