"""An endpoint with scripted answers, and a clock that moves only when the agent waits."""

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

from tests.agent.events import NOON


@dataclass(frozen=True, slots=True)
class Answer:
    """A scripted answer; status 0 closes the connection without one, ``after`` delays it."""

    status: int = 200
    body: bytes = b'{"DocumentIncarnation":1,"Events":[]}'
    headers: Mapping[str, str] = field(default_factory=dict)
    after: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that the endpoint received."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Script:
    """The answers to come, and the requests so far; the last answer is repeated."""

    answers: list[Answer]
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@dataclass
class FakeClock:
    """Time that passes only by waiting."""

    at: datetime = NOON
    waits: list[timedelta] = field(default_factory=list)

    def now(self) -> datetime:
        return self.at

    def elapsed(self) -> timedelta:
        return self.at - NOON

    def wait(self, length: timedelta, until: threading.Event | None = None) -> None:
        if length > timedelta(0):
            self.waits.append(length)
            self.at += length


@contextmanager
def dripping(answer: bytes) -> Iterator[str]:
    """Yield an endpoint that accepts one connection and sends ``answer`` byte by byte, 20 ms apart."""
    stop = threading.Event()

    def drip(server: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = server.accept()
            with connection:
                for at in range(len(answer)):
                    connection.sendall(answer[at : at + 1])
                    if stop.wait(0.02):
                        return

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip, args=[server])
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            stop.set()
            with suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)
            thread.join()


@contextmanager
def endpoint(*answers: Answer) -> Iterator[Script]:
    """Yield an endpoint on loopback that sends these answers, one after the other."""
    script = Script(list(answers) or [Answer()])

    class Handler(BaseHTTPRequestHandler):
        def reply(self) -> None:
            length = int(self.headers.get("Content-Length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            script.asked.append(Asked(self.command, self.path, headers, self.rfile.read(length)))
            answer = script.next()
            threading.Event().wait(answer.after.total_seconds())
            if answer.status == 0:
                return
            self.send_response_only(answer.status)
            for name, value in answer.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)

        do_GET = do_POST = reply

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
