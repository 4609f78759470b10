"""The console on several nodes: sessions and forms are good on all of them."""

from fairwarning.core.blueprint import Blueprint
from fairwarning.store.memory import MemoryStore
from tests.console.console_client import ConsoleTestClient, csrf_token, text
from tests.nodes.node import TOKEN, follow, start_node, two_nodes

WEB = Blueprint(name="web", count=2)


def log_in(client: ConsoleTestClient) -> None:
    form = {"csrf": csrf_token(client.page("/login")), "token": TOKEN}
    assert client.send("POST", "/login", form).status_code == 303


def test_a_session_begun_on_one_node_is_good_on_another() -> None:
    first, second = two_nodes(WEB, token=TOKEN)

    log_in(first.console)
    second.console.cookies.update(first.console.cookies)

    assert "web" in text(second.console.page("/"))


def test_a_form_of_one_node_is_good_on_another() -> None:
    first, second = two_nodes(WEB, token=TOKEN)
    log_in(first.console)
    second.console.cookies.update(first.console.cookies)
    form = {"csrf": csrf_token(first.console.page("/machines/web_0")), "cause": "restart"}

    response = second.console.send("POST", "/machines/web_0/cause", form)

    assert response.status_code == 303
    assert len(second.fleet.pending("web")) == 1


def test_a_login_form_of_one_node_is_good_on_another() -> None:
    first, second = two_nodes(token=TOKEN)
    form = {"csrf": csrf_token(first.console.page("/login")), "token": TOKEN}

    assert second.console.send("POST", "/login", form).status_code == 303


def test_a_form_is_good_after_its_node_was_restarted() -> None:
    store = MemoryStore()
    form = {"csrf": csrf_token(start_node(store).console.page("/clock"))}

    response = start_node(store).console.send("POST", "/clock/next", form)

    assert response.status_code == 303


def test_a_logout_on_one_node_ends_the_session_on_another() -> None:
    first, second = two_nodes(token=TOKEN)
    log_in(first.console)
    second.console.cookies.update(first.console.cookies)
    before = second.console.send("GET", "/").status_code

    first.console.press("/logout", "/")
    follow(second)

    assert (before, second.console.send("GET", "/").status_code) == (200, 303)


def test_a_logout_outlives_the_node() -> None:
    store = MemoryStore()
    first = start_node(store, token=TOKEN)
    log_in(first.console)
    session = dict(first.console.cookies)
    first.console.press("/logout", "/")

    restarted = start_node(store, token=TOKEN)
    restarted.console.cookies.update(session)

    assert restarted.console.send("GET", "/").status_code == 303


def test_a_page_about_what_another_node_has_just_made_is_found() -> None:
    first, second = two_nodes(WEB)

    first.fleet.make(Blueprint(name="app", count=1))

    assert "app_0" in text(second.console.page("/machines/app_0"))
    assert second.console.send("GET", "/machines/nothing").status_code == 404
