"""An agent with several endpoints, which are nodes of one service."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.agent.client import LONG_POLL, MetadataClient, RefusedError, UnavailableError
from fairwarning.agent.clock import AgentSystemClock
from fairwarning.core.model import EventId
from tests.agent.processes import AGENT, guest
from tests.agent.scripted import Answer, FakeClock, Script, endpoint
from tests.cli.server import until, up

ONE = b'{"DocumentIncarnation":3,"Events":[{"EventId":"A","EventStatus":"Scheduled","Resources":["web_0"]}]}'
HERE = Answer(200, ONE, {"ETag": '"3"'})
OURS = Answer(200, ONE, {"ETag": '"3"', "Server": "IMDS/fairwarning"})
AWAY = Answer(503, b"no database", {"Retry-After": "7"})
#: Nothing listens here, so connections are refused at once.
CLOSED = "http://127.0.0.1:1"


@contextmanager
def silent() -> Iterator[str]:
    """Yield an endpoint that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def asked(*scripts: Script) -> list[list[str]]:
    return [[request.method for request in script.asked] for script in scripts]


@pytest.mark.rule("C-19")
@pytest.mark.parametrize("trouble", [AWAY, Answer(500, b""), Answer(0)], ids=["503", "500", "no answer"])
def test_a_poll_moves_on_to_the_next_endpoint(trouble: Answer) -> None:
    moves: list[tuple[str, str]] = []
    with endpoint(trouble) as first, endpoint(HERE) as second:
        client = MetadataClient(
            first.url, FakeClock(), others=[second.url], moved=lambda *move: moves.append(move)
        )

        document = client.poll()

    assert document is not None
    assert client.pause == timedelta(seconds=1)
    assert client.endpoint == second.url
    assert asked(first, second) == [["GET"], ["GET"]]
    ((used, problem),) = moves
    assert used == second.url
    assert first.url.removeprefix("http://") in problem


@pytest.mark.rule("C-19")
def test_the_next_poll_begins_where_the_last_one_was_answered() -> None:
    with endpoint(HERE) as second:
        client = MetadataClient(CLOSED, FakeClock(), others=[second.url])

        client.poll()
        client.poll()

    assert asked(second) == [["GET", "GET"]]
    assert second.asked[1].headers["if-none-match"] == '"3"'


@pytest.mark.rule("C-19")
def test_after_the_last_endpoint_comes_the_first() -> None:
    with endpoint(HERE, AWAY, HERE) as first, endpoint(HERE, AWAY) as second:
        client = MetadataClient(first.url, FakeClock(), others=[second.url])
        used = []

        for _ in range(3):
            client.poll()
            used.append(client.endpoint)

    assert used == [first.url, second.url, first.url]


@pytest.mark.rule("C-19")
def test_another_endpoint_is_asked_for_the_whole_document_and_not_to_wait() -> None:
    with endpoint(OURS, AWAY) as first, endpoint(OURS) as second:
        client = MetadataClient(first.url, FakeClock(), others=[second.url])

        client.poll()
        client.poll()

    assert [request.path.partition("&")[2] for request in first.asked] == ["", f"wait={LONG_POLL.seconds}"]
    assert [request.path.partition("&")[2] for request in second.asked] == [""]
    assert "if-none-match" not in second.asked[0].headers


@pytest.mark.rule("C-19")
@pytest.mark.parametrize("status", [400, 404, 410, 429])
def test_an_answer_of_the_service_is_not_asked_for_twice(status: int) -> None:
    with endpoint(Answer(status, b"")) as first, endpoint(HERE) as second:
        client = MetadataClient(first.url, FakeClock(), others=[second.url])

        with pytest.raises((UnavailableError, RefusedError), match=str(status)):
            client.poll()

    assert asked(second) == [[]]


@pytest.mark.rule("C-19")
def test_retry_after_is_honoured_only_when_every_endpoint_has_refused() -> None:
    sooner = Answer(503, b"", {"Retry-After": "5"})
    with endpoint(AWAY) as first, endpoint(HERE, sooner) as second:
        client = MetadataClient(first.url, FakeClock(), others=[second.url])

        client.poll()
        while_one_answers = client.pause
        with pytest.raises(UnavailableError, match=r"answers 503.*; .*answers 503: no database"):
            client.poll()

    assert (while_one_answers, client.pause) == (timedelta(seconds=1), timedelta(seconds=5))


@pytest.mark.rule("C-19")
def test_a_long_retry_after_does_not_use_up_the_notice_of_an_eviction() -> None:
    with endpoint(Answer(503, b"", {"Retry-After": "3600"})) as only:
        client = MetadataClient(only.url, FakeClock(), others=[CLOSED])

        with pytest.raises(UnavailableError):
            client.poll()

    assert client.pause == timedelta(seconds=16)


@pytest.mark.rule("C-02")
def test_a_single_endpoint_is_asked_again_as_ever_whatever_it_asks_for() -> None:
    with endpoint(AWAY) as only:
        client = MetadataClient(only.url, FakeClock())

        with pytest.raises(UnavailableError, match=r"^the endpoint answers 503: no database$"):
            client.poll()

    assert client.pause == timedelta(seconds=1)


@pytest.mark.rule("C-19")
def test_all_endpoints_together_keep_to_the_time_of_one_poll() -> None:
    clock = AgentSystemClock()
    with silent() as first, silent() as second, silent() as third:
        client = MetadataClient(first, clock, others=[second, third], first_timeout=timedelta(seconds=0.9))
        begun = clock.elapsed()

        with pytest.raises(UnavailableError, match="took too long"):
            client.poll()

    assert clock.elapsed() - begun < timedelta(seconds=2)


@pytest.mark.rule("C-19")
def test_an_endpoint_that_hangs_leaves_time_for_the_others() -> None:
    with silent() as first, silent() as second, endpoint(HERE) as third:
        client = MetadataClient(
            first,
            AgentSystemClock(),
            others=[second, third.url],
            first_timeout=timedelta(seconds=0.9),
        )

        document = client.poll()

    assert document is not None


@pytest.mark.rule("C-19")
def test_an_approval_goes_to_the_endpoint_that_answered_last() -> None:
    with endpoint(AWAY) as first, endpoint(HERE) as second:
        client = MetadataClient(first.url, FakeClock(), others=[second.url])

        client.poll()
        client.approve(EventId("A"))

    assert asked(first, second) == [["GET"], ["GET", "POST"]]


@pytest.mark.rule("C-19")
@pytest.mark.parametrize("trouble", [AWAY, Answer(0)], ids=["refused", "of unknown outcome"])
def test_an_approval_moves_on_too(trouble: Answer) -> None:
    clock = FakeClock()
    with endpoint(HERE, trouble) as first, endpoint(HERE) as second:
        client = MetadataClient(first.url, clock, others=[second.url])

        client.poll()
        client.approve(EventId("A"))

    assert asked(first, second) == [["GET", "POST"], ["POST"]]
    assert json.loads(second.asked[0].body) == {"StartRequests": [{"EventId": "A"}]}
    assert clock.elapsed() < timedelta(seconds=1)


@pytest.mark.rule("C-19")
def test_the_name_of_the_machine_is_asked_of_the_next_endpoint_too() -> None:
    with endpoint(Answer(200, b"web_0")) as second:
        assert MetadataClient(CLOSED, FakeClock(), others=[second.url]).name() == "web_0"


@pytest.mark.rule("C-19")
def test_explain_says_which_endpoint_answered(tmp_path: Path) -> None:
    with endpoint(Answer(200, ONE)) as second:
        explained = subprocess.run(
            [*AGENT, "explain", "--endpoint", CLOSED, "--endpoint", second.url, "--state", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )

    assert f"fairwarning-agent: asking {CLOSED}, {second.url}\n" in explained.stderr
    assert f"fairwarning-agent: using {second.url} (127.0.0.1:1 does not answer" in explained.stderr


@pytest.mark.slow
@pytest.mark.rule("C-19")
def test_an_agent_whose_first_endpoint_is_away_drains_and_approves(tmp_path: Path, stack: ExitStack) -> None:
    server = stack.enter_context(up(tmp_path, "--vm", "moved", "--speed", "20", "--no-arm"))
    dead = stack.enter_context(endpoint(AWAY))
    moved = guest(server, tmp_path, "moved", stack)
    text = moved.config.read_text()
    url = server.ready["metadata"]["moved"]
    moved.config.write_text(text.replace(f'endpoint = "{url}"', f'endpoint = ["{dead.url}", "{url}"]'))
    moved.run()

    (event,) = server.cause("restart", "moved")
    until(lambda: "approval_accepted" in moved.log_text(), "the approval is accepted")
    moved.recovered(event)

    lines = [json.loads(line) for line in moved.log_text().splitlines()]
    (change,) = [line for line in lines if line["event"] == "endpoint_changed"]
    assert change["endpoint"] == url
    assert change["problem"] == f"{dead.url.removeprefix('http://')} answers 503: no database"
