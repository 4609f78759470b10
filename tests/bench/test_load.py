"""Callers of the bench: what they ask, whom they believe, and what a fixed rate means."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from bench.load import MODES, POLL, Address, Lines, Load, Unanswered
from bench.servers import sources
from bench.steady import steady


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status = 200
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked.append((self.client_address[0], self.headers.get("x-ms-client-request-id", "")))
        self.send_response(self.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        return


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        return  # callers hang up when they have heard enough


@pytest.fixture
def handler() -> type[Handler]:
    class Fresh(Handler):
        """Knows only who asks in one test."""

    Fresh.asked = []
    return Fresh


@pytest.fixture
def address(handler: type[Handler]) -> Iterator[Address]:
    with Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield "127.0.0.1", server.server_port
        server.shutdown()
        thread.join()


def test_every_caller_has_an_address_of_its_own(handler: type[Handler], address: Address) -> None:
    callers = sources(range(3))

    with Lines(address) as lines:
        lines.welcomed(callers)

    assert [source for source, _ in handler.asked] == ["127.1.0.1", "127.1.0.2", "127.1.0.3"]


def test_polls_at_a_fixed_rate_are_due_whatever_became_of_those_before(address: Address) -> None:
    polls = steady(address, sources(range(5)), rate=200.0, seconds=0.1)

    dues = sorted(one.due for one in polls)
    assert len(dues) == 20
    assert [after - before for before, after in pairwise(dues)] == pytest.approx([0.005] * 19)
    assert min(one.waited for one in polls) > 0.0


def test_heads_that_are_unique_stay_so_in_the_next_round(handler: type[Handler], address: Address) -> None:
    for _ in range(2):
        with Load(address, sources(range(2)), MODES["unique heads"]) as load:
            load.run(0.0, at_least=10)

    asked = [request for _, request in handler.asked]
    assert len(asked) >= 20
    assert len(set(asked)) == len(asked)


def test_a_server_that_does_not_answer_as_it_should_is_not_measured(
    handler: type[Handler], address: Address
) -> None:
    handler.status = 503

    with Lines(address) as lines, pytest.raises(Unanswered, match=r"127\.1\.0\.1 was told b'HTTP/1\.1 503"):
        lines.answer(lines.connect("127.1.0.1"), POLL)
