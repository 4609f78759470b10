"""``/readyz`` at the metadata address, for load balancers: whoever asks, and whatever else they ask for."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from fairwarning.control.control import Control
from fairwarning.core.policy import Profile
from fairwarning.http1.messages import Request, Response
from fairwarning.metadata.app import MetadataApp
from tests.guest import UNHURRIED, Cloud, cloud

READYZ = Request("GET", "/readyz", "", {}, b"", True)


@contextmanager
def served(profile: Profile = UNHURRIED, *, serving: bool = True) -> Iterator[Cloud]:
    """Give a fleet as ``serve`` has it: load balancers may ask for its readiness."""
    with cloud(profile=profile) as web:
        web.engine.membership.serving = serving
        yield replace(web, app=MetadataApp(Control(web.engine), profile, readyz=True))


@pytest.mark.rule("R-28")
def test_a_balancer_that_is_no_guest_is_told_that_the_node_is_ready() -> None:
    with served() as web:
        assert web.ask(None, READYZ) == Response(
            200, b'{"status":"ready"}', content_type="application/json; charset=utf-8"
        )


@pytest.mark.rule("R-28")
@pytest.mark.parametrize("caller", [None, "web_0"], ids=["a stranger", "a guest"])
def test_nobody_is_told_why_a_node_is_not_ready(caller: str | None) -> None:
    with served(serving=False) as web:
        response = web.ask(caller, READYZ)

    assert (response.status, response.body) == (503, b'{"status":"not ready"}')


@pytest.mark.rule("R-28")
def test_asking_costs_a_guest_none_of_its_requests() -> None:
    with served(Profile(requests_per_second=1, burst=1)) as web:
        ready = {web.ask("web_0", READYZ).status for _ in range(20)}

        assert (ready, web.get().status, web.get().status) == ({200}, 200, 429)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        pytest.param(READYZ._replace(method="HEAD"), 200, id="HEAD"),
        pytest.param(READYZ._replace(method="POST", body=b"{}"), 405, id="POST"),
        pytest.param(READYZ._replace(query="verbose"), 200, id="a query is ignored"),
        pytest.param(READYZ._replace(path="/healthz"), 403, id="another path of the operator API"),
        pytest.param(READYZ._replace(path="/readyz/"), 403, id="a path below"),
    ],
)
def test_a_stranger_may_ask_for_nothing_else(request_: Request, status: int) -> None:
    with served() as web:
        assert web.ask(None, request_).status == status


@pytest.mark.rule("R-28")
def test_the_endpoint_of_an_emulated_machine_has_no_readyz() -> None:
    with cloud() as web:
        assert (web.ask("web_0", READYZ).status, web.ask(None, READYZ).status) == (404, 403)
