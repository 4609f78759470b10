"""The create pages: step by step, and with mistakes."""

from collections.abc import Sequence
from datetime import timedelta
from html.parser import HTMLParser

import pytest

from fairwarning.console.app import create_app
from fairwarning.console.forms import CHOICES
from fairwarning.control.control import Control
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.model import EvictionPolicy, MachineRef, ScopeKind
from tests.console.console_client import ConsoleTestClient, ParsedPage, console_client, text

WEB = Blueprint(name="web", count=3)
SET = "/create/scale-set"
HOSTILE = '"><img src=x onerror=alert(1)>'


def written(page: str) -> dict[str, str]:
    """Return the values of all inputs of a page, including hidden ones."""
    inputs = ParsedPage(page, "input").attributes
    return {field["name"]: field.get("value", "") for field in inputs if "name" in field}


class DefinitionTexts(HTMLParser):
    """The texts of the definition lists of a page: term, value, term, value."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._inside = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside = tag in ("dt", "dd")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.texts.append(data)


def test_everything_that_can_be_created_is_offered() -> None:
    page = console_client().page("/create")

    links = {element["href"] for element in ParsedPage(page, "a").attributes}
    assert {f"/create/{name}" for name in CHOICES} <= links


def test_what_cannot_be_created_has_no_page() -> None:
    console_client().page("/create/castle", status=404)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_form_opens_with_its_first_step_and_without_reproach(choice: str) -> None:
    page = console_client().page(f"/create/{choice}")

    assert 'aria-current="step">Basics' in page
    assert "Please correct" not in page
    assert "Review + create" in text(page)


def test_the_scale_set_form_has_the_steps_of_the_portal() -> None:
    page = console_client().page(SET)

    steps = [
        element["value"] for element in ParsedPage(page, "button").attributes if element.get("name") == "tab"
    ]
    assert steps[1:4] == ["basics", "management", "review"]


@pytest.mark.rule("T-02")
def test_management_has_the_switch_and_the_delay_of_five_minutes() -> None:
    page = console_client().page(f"{SET}?tab=management")

    words = text(page)
    for label in ("Instance termination", "Instance termination notification", "Termination delay (minutes)"):
        assert label in words
    inputs = ParsedPage(page, "input").attributes
    assert [element["value"] for element in inputs if element.get("name") == "notification"] == ["on", "off"]
    assert [element["value"] for element in inputs if "checked" in element] == ["off"]
    assert [element["value"] for element in inputs if element.get("name") == "delay"] == ["5"]


def test_nothing_is_lost_between_the_steps() -> None:
    client = console_client()

    management = client.page(f"{SET}?name=blue&count=4&zones=1&tags=a%3D1&tab=management")
    basics = client.page(f"{SET}?name=blue&count=4&notification=on&delay=7&tab=basics")

    kept = written(management)
    assert (kept["name"], kept["count"], kept["zones"], kept["tags"]) == ("blue", "4", "1", "a=1")
    assert (written(basics)["notification"], written(basics)["delay"]) == ("on", "7")


def test_review_shows_what_will_be_made() -> None:
    page = console_client().page(f"{SET}?name=blue&count=2&notification=on&delay=7&tab=review")

    texts = DefinitionTexts(page).texts
    facts = dict(zip(texts[::2], texts[1::2], strict=True))
    assert facts["Name"] == "blue"
    assert facts["Instance termination notification"] == "On"
    assert facts["Termination delay (minutes)"] == "7"
    assert "2 machines: blue_0, blue_1" in text(page)
    assert written(page)["delay"] == "7"


def test_review_leaves_out_a_delay_that_does_not_matter() -> None:
    words = text(console_client().page(f"{SET}?name=blue&delay=7&tab=review"))

    assert "Termination delay" not in words


@pytest.mark.rule("T-02")
def test_a_set_is_created_with_its_termination_delay() -> None:
    client = console_client()
    review = f"{SET}?name=blue&count=2&notification=on&delay=7&tab=review"

    page = client.accepted(SET, page=review, **written(client.page(review)))

    assert "Created blue with 2 machines." in text(page)
    assert client.stage.scope("blue").facts.model.terminate_notice == timedelta(minutes=7)
    assert client.stage.machines("blue") == ["blue_0", "blue_1"]
    assert client.stage.history() == []


@pytest.mark.parametrize(
    ("choice", "form", "kind"),
    [
        pytest.param("scale-set", {"mode": "flexible"}, ScopeKind.FLEXIBLE_SET, id="a flexible set"),
        pytest.param(
            "availability-set", {"count": "2"}, ScopeKind.AVAILABILITY_SET, id="an availability set"
        ),
        pytest.param("vm", {}, ScopeKind.STANDALONE, id="a machine"),
        pytest.param("spot-vm", {"eviction": "Delete"}, ScopeKind.STANDALONE, id="a Spot machine"),
        pytest.param("cloud-service", {"roles": "Web=1"}, ScopeKind.CLOUD_SERVICE, id="a cloud service"),
    ],
)
def test_each_of_them_can_be_created(choice: str, form: dict[str, str], kind: ScopeKind) -> None:
    client = console_client()

    client.accepted(f"/create/{choice}", page=f"/create/{choice}?name=one&tab=review", name="one", **form)

    scope = client.stage.scope("one")
    assert scope.facts.kind is kind
    machines = list(scope.machines.values())
    assert all(machine.spot == (choice == "spot-vm") for machine in machines)
    assert all((machine.eviction is EvictionPolicy.DELETE) == (choice == "spot-vm") for machine in machines)


def test_a_set_in_zones_leads_to_the_fleet() -> None:
    client = console_client()

    answer = client.press(SET, page=f"{SET}?name=z&tab=review", name="z", zones="1,2")

    assert answer.headers["location"] == "/"
    assert sorted(client.stage.engine.scopes()) == ["z.zone1", "z.zone2"]


def test_new_machines_are_given_their_endpoints() -> None:
    client = console_client()
    opened: list[MachineRef] = []

    async def open_endpoints(machines: Sequence[MachineRef]) -> None:
        opened.extend(machines)

    app = create_app(Control(client.stage.engine, open_endpoints), endpoints=lambda ref: None)
    client = ConsoleTestClient(client.stage, app, client.shutdown)
    client.accepted(SET, page=f"{SET}?name=x&tab=review", name="x", count="2")

    assert [machine.name for machine in opened] == ["x_0", "x_1"]


@pytest.mark.rule("T-02")
def test_a_wrong_delay_is_told_at_the_field_and_nothing_is_created() -> None:
    client = console_client()

    page = client.refused(
        SET,
        page=f"{SET}?name=a&tab=review",
        status=422,
        name="blue",
        notification="on",
        delay="16",
        tab="review",
    )

    assert 'aria-current="step">Management' in page
    assert "must be a whole number from 5 to 15, not '16'" in text(page)
    assert (written(page)["name"], written(page)["delay"]) == ("blue", "16")
    assert not client.stage.engine.scopes()


def test_mistakes_on_several_steps_are_all_told_and_what_was_written_stays() -> None:
    page = console_client().page(f"{SET}?name=&count=many&notification=on&delay=3&tab=review")

    words = text(page)
    assert 'aria-current="step">Basics' in page
    assert "Name: a name is required" in words
    assert "must be a whole number from 0 to 1000, not 'many'" in words
    assert "Termination delay (minutes) (Management): must be a whole number from 5 to 15, not '3'" in words
    assert (written(page)["count"], written(page)["delay"]) == ("many", "3")


def test_a_name_that_is_taken_is_told_at_the_field() -> None:
    client = console_client(WEB)

    page = client.refused(SET, page=f"{SET}?name=a&tab=review", status=422, name="web", tab="review")

    assert "the name web is taken" in text(page)


@pytest.mark.rule("T-05")
def test_spot_sets_are_refused_the_notification_in_words() -> None:
    page = console_client().page(f"{SET}?name=a&priority=spot&notification=on&tab=review")

    assert "terminate notification cannot be enabled for Spot machines" in text(page)
    assert 'aria-current="step">Management' in page


@pytest.mark.rule("T-06")
def test_existing_sets_get_the_notification_by_az_alone() -> None:
    words = text(console_client(WEB).page(f"{SET}?tab=management"))

    assert "only while a set is being created" in words
    assert (
        "az vmss update --resource-group fairwarning --name web"
        " --enable-terminate-notification true --terminate-notification-time 10" in words
    )


@pytest.mark.parametrize("choice", CHOICES)
def test_hostile_words_are_shown_as_text_in_every_field(choice: str) -> None:
    client = console_client()
    form = {field: HOSTILE for field in CHOICES[choice].fields}

    page = client.refused(f"/create/{choice}", page=f"/create/{choice}?name=a&tab=review", status=422, **form)

    assert "<img" not in page
    assert HOSTILE in text(page)


def test_hostile_tags_are_shown_as_text_in_the_review() -> None:
    page = console_client().page("/create/vm?name=db&tags=owner%3D%3Cimg%3E&tab=review")

    assert "<img" not in page
    assert "owner=<img>" in text(page)


def test_a_form_without_the_csrf_token_creates_nothing() -> None:
    client = console_client()

    answer = client.send("POST", "/create/vm", {"name": "db"})

    assert answer.status_code == 403
    assert not client.stage.engine.scopes()
