"""What monitoring is told."""

from prometheus_client.parser import text_string_to_metric_families

from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import ScopeKind
from tests.operator.operator_client import Office, office

WEB = Blueprint(name="web", count=3)
DB = Blueprint(name="db", kind=ScopeKind.STANDALONE)


def numbers(desk: Office) -> dict[tuple[str, ...], float]:
    """Return every number by its name and what its labels say."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(desk.get("/metrics").decode())
        for sample in family.samples
    }


def test_machines_and_scopes_are_counted_by_kind() -> None:
    found = numbers(office(WEB, DB))

    assert found["fairwarning_machines", "scale-set"] == 3
    assert found["fairwarning_machines", "standalone"] == 1
    assert found["fairwarning_scopes", "standalone"] == 1


def test_pending_events_are_counted_by_type_and_status() -> None:
    desk = office(WEB)
    desk.cause("restart", "web_0")
    desk.cause("restart", "web_1")
    desk.cause("redeploy", "web_2")

    found = numbers(desk)

    assert found["fairwarning_events", "Reboot", "Scheduled"] == 2
    assert found["fairwarning_events", "Redeploy", "Scheduled"] == 1


def test_the_journal_is_counted() -> None:
    desk = office(WEB)
    before = numbers(desk)["fairwarning_journal_lines_total",]

    desk.cause("restart", "web_0")

    assert numbers(desk)["fairwarning_journal_lines_total",] > before


def test_the_answer_says_how_it_is_to_be_read() -> None:
    answer = office(WEB).send("GET", "/metrics")

    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
