"""A webhook is signed so that any Standard Webhooks receiver can check it, and its answer decides."""

import base64
import hashlib
import hmac
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from fairwarning.agent.hooks import Hook, parse
from fairwarning.agent.hooks.http import sign
from tests.agent.hooks.contexts import EVENT, in_seconds, noon, prepare, recover
from tests.agent.scripted import dripping
from tests.conftest import NOON

KEY = b"a key that both sides know, 32 b"
SECRET = f"whsec_{base64.b64encode(KEY).decode()}"


@dataclass(slots=True)
class Receiver:
    """A webhook that answers as configured and keeps the requests."""

    url: str = ""
    status: int = 204
    answer: bytes = b""
    asked: list[tuple[dict[str, str], bytes]] = field(default_factory=list)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            receiver.asked.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(receiver.status)
            self.send_header("Location", receiver.url)
            self.end_headers()
            self.wfile.write(receiver.answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        receiver.url = f"http://127.0.0.1:{server.server_port}/hook?team=web"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield receiver
        server.shutdown()
        thread.join()


def hook(receiver: Receiver, **options: str) -> Hook:
    return parse({"http": {"url": receiver.url, **options}})


def test_the_signature_covers_the_id_the_time_and_the_body(receiver: Receiver) -> None:
    outcome = hook(receiver, secret=SECRET).run(prepare(), None, noon)

    ((headers, body),) = receiver.asked
    asked, sent = headers["webhook-id"], headers["webhook-timestamp"]
    digest = hmac.new(KEY, b".".join((asked.encode(), sent.encode(), body)), hashlib.sha256).digest()
    assert outcome.ok
    assert int(sent) == int(NOON.timestamp())
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def test_a_signature_is_what_another_tool_made_of_the_same_message() -> None:
    # printf 'msg_1.1700000000.{"a":1}' | openssl dgst -sha256 -hmac "$KEY" -binary | base64
    assert sign(KEY, "msg_1", 1_700_000_000, b'{"a":1}') == "v1,ufx6DMt1F4yu5xaI2tJxa+H6nQQx+3mLSSkIV0hx7kU="


def test_the_body_tells_of_the_event_and_its_phase(receiver: Receiver) -> None:
    hook(receiver).run(recover(), None, noon)

    ((headers, body),) = receiver.asked
    message = json.loads(body)
    assert message["type"] == "event.recover"
    assert message["timestamp"] == "2026-11-16T12:00:00+00:00"
    assert message["data"]["id"] == EVENT.id
    assert message["data"]["resources"] == ["web_0", "web_1"]
    assert headers["content-type"] == "application/json"
    assert "webhook-signature" not in headers


def test_asking_again_keeps_the_id_so_that_a_repetition_shows(receiver: Receiver) -> None:
    asking = hook(receiver)

    asking.run(prepare(), None, noon)
    asking.run(prepare(), None, noon)
    asking.run(recover(), None, noon)

    first, second, third = (headers["webhook-id"] for headers, _ in receiver.asked)
    assert first == second == f"{EVENT.key}.prepare"
    assert third != first


@pytest.mark.parametrize(
    ("status", "ok"),
    [
        pytest.param(200, True, id="200 allows"),
        pytest.param(299, True, id="every 2xx allows"),
        pytest.param(302, False, id="a redirect is not followed"),
        pytest.param(403, False, id="a refusal holds the approval"),
        pytest.param(500, False, id="an error holds the approval"),
    ],
)
def test_only_success_lets_the_agent_go_on(status: int, ok: bool, receiver: Receiver) -> None:
    receiver.status, receiver.answer = status, b"no change ticket"

    outcome = hook(receiver).run(prepare(), None, noon)

    assert outcome.ok is ok
    assert outcome.message.endswith(f"answers {status}: no change ticket")
    assert len(receiver.asked) == 1


def test_the_secret_may_live_in_a_file(receiver: Receiver, tmp_path: Path) -> None:
    place = tmp_path / "secret"
    place.write_text(f"{SECRET}\n")

    hook(receiver, secret_file=str(place)).run(prepare(), None, noon)

    ((headers, body),) = receiver.asked
    assert headers["webhook-signature"] == sign(KEY, headers["webhook-id"], int(NOON.timestamp()), body)


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(lambda place: None, id="no file"),
        pytest.param(lambda place: place.write_text("whsec_!"), id="no secret in it"),
        pytest.param(os.mkfifo, id="a pipe"),
    ],
)
def test_without_its_secret_nothing_is_sent(
    write: Callable[[Path], None], receiver: Receiver, tmp_path: Path
) -> None:
    place = tmp_path / "secret"
    write(place)

    outcome = hook(receiver, secret_file=str(place)).run(prepare(), None, noon)

    assert not outcome.ok
    assert receiver.asked == []


def test_a_receiver_that_never_answers_costs_no_more_than_the_time_there_is() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        asking = parse({"http": {"url": f"http://127.0.0.1:{silent.getsockname()[1]}/"}})

        outcome = asking.run(prepare(deadline=in_seconds(1)), None, noon)

    assert not outcome.ok
    assert "did not answer" in outcome.message


def test_a_receiver_that_answers_byte_by_byte_is_cut_off() -> None:
    with dripping(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 500) as url:
        outcome = parse({"http": {"url": f"{url}/"}}).run(prepare(deadline=in_seconds(1)), None, noon)

    assert not outcome.ok
    assert "took too long" in outcome.message


@pytest.mark.rule("D-05")
def test_a_proxy_in_the_environment_is_not_asked(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    assert hook(receiver).run(prepare(), None, noon).ok


def test_what_is_secret_in_an_address_is_not_shown() -> None:
    asking = parse({"http": {"url": "https://user:pass@example.com/hook?token=abc"}})

    assert asking.describe() == "ask https://example.com/hook for permission"
