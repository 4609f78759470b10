"""The callers of the bench: source addresses, requests, a fixed rate, and wrong answers."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise

import pytest

from bench.load import MODES, POLL, Address, ClientConnections, Load, UnansweredError
from bench.servers import sources
from bench.steady import steady


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    status = 200
    requests: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.requests.append((self.client_address[0], self.headers.get("x-ms-client-request-id", "")))
        self.send_response(self.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *arguments: object) -> None:
        return


class Server(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        return  # callers close their connections when they are done


@pytest.fixture
def handler() -> type[Handler]:
    class Fresh(Handler):
        """Records the requests of one test."""

    Fresh.requests = []
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

    with ClientConnections(address) as connections:
        connections.connect_all(callers)

    assert [source for source, _ in handler.requests] == ["127.1.0.1", "127.1.0.2", "127.1.0.3"]


def test_polls_at_a_fixed_rate_are_due_whatever_became_of_those_before(address: Address) -> None:
    polls = steady(address, sources(range(5)), rate=200.0, seconds=0.1)

    dues = sorted(poll.due for poll in polls)
    assert len(dues) == 20
    assert [after - before for before, after in pairwise(dues)] == pytest.approx([0.005] * 19)
    assert min(poll.waited for poll in polls) > 0.0


def test_heads_that_are_unique_stay_so_in_the_next_round(handler: type[Handler], address: Address) -> None:
    for _ in range(2):
        with Load(address, sources(range(2)), MODES["unique heads"]) as load:
            load.run(0.0, at_least=10)

    ids = [request_id for _, request_id in handler.requests]
    assert len(ids) >= 20
    assert len(set(ids)) == len(ids)


def test_a_server_that_does_not_answer_as_it_should_is_not_measured(
    handler: type[Handler], address: Address
) -> None:
    handler.status = 503

    with (
        ClientConnections(address) as connections,
        pytest.raises(UnansweredError, match=r"127\.1\.0\.1 received b'HTTP/1\.1 503"),
    ):
        connections.answer(connections.connect("127.1.0.1"), POLL)
