"""What a handler does to its machine is heard of, whichever way it tells."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import httpx2
import pytest

from fairwarning.check.handler import HandlerEnvironment
from fairwarning.check.hook_server import Behaviour, HookServer
from fairwarning.check.observation_log import ObservationLog
from fairwarning.check.observations import Hooked, Phase
from tests.check.sight import E1

Story = Callable[[str, ObservationLog, HookServer], Awaitable[int]]


def hear(story: Story, *, fails: bool = False, takes: timedelta = timedelta(0)) -> tuple[int, list[Hooked]]:
    """Return how a story ended and what the desk heard of it."""

    async def play() -> tuple[int, list[Hooked]]:
        notebook = ObservationLog(asyncio.get_running_loop().time())
        notebook.rest()
        desk = HookServer(notebook, lambda machine, phase: Behaviour(takes, fails))
        async with desk.open() as call:
            code = await story(call, notebook, desk)
        return code, list(notebook.hooks.values())

    return asyncio.run(play())


def running(folder: Path, phase: Phase, *words: str, event: str = "") -> Story:
    """A handler on web_0 that runs a hook."""

    async def story(call: str, notebook: ObservationLog, desk: HookServer) -> int:
        place = HandlerEnvironment(machine="web_0", folder=folder / "web_0", call=call)
        place.furnish()
        program = place.words[phase]
        environment = {"FAIRWARNING_EVENT_ID": event}
        process = await asyncio.create_subprocess_exec(program, *words, env=environment)
        return await process.wait()

    return story


def posting(path: str, method: str = "POST") -> Story:
    """A handler that makes a call, and the status it gets."""

    async def story(call: str, notebook: ObservationLog, desk: HookServer) -> int:
        async with httpx2.AsyncClient(trust_env=False) as client:
            return (await client.request(method, f"{call}{path}")).status_code

    return story


@pytest.mark.parametrize(
    ("words", "event"),
    [
        pytest.param(("e1",), "", id="as a word"),
        pytest.param((), "e1", id="in the environment, as the agent does"),
        pytest.param(("e1",), "other", id="the word counts"),
    ],
)
def test_a_hook_is_told_its_event(tmp_path: Path, words: tuple[str, ...], event: str) -> None:
    code, (heard,) = hear(running(tmp_path, Phase.DRAIN, *words, event=event))

    assert code == 0
    assert (heard.machine, heard.phase, heard.event, heard.ok) == ("web_0", Phase.DRAIN, E1, True)
    assert heard.ended is not None


def test_a_hook_without_an_event_may_be_about_any(tmp_path: Path) -> None:
    _, (heard,) = hear(running(tmp_path, Phase.RECOVER))

    assert (heard.phase, heard.event, heard.concerns(E1)) == (Phase.RECOVER, None, True)


def test_a_hook_fails_where_the_scenario_says_so(tmp_path: Path) -> None:
    code, (heard,) = hear(running(tmp_path, Phase.DRAIN, "E1"), fails=True)

    assert (code, heard.ok) == (1, False)


@pytest.mark.parametrize(
    ("path", "fails", "status", "heard"),
    [
        pytest.param("/web_0/drain/E1", False, 200, 1, id="drained"),
        pytest.param("/web_0/drain/E1", True, 500, 1, id="not drained"),
        pytest.param("/web_0/dance/E1", False, 404, 0, id="something else"),
    ],
)
def test_a_call_is_answered_as_the_hook_ends(path: str, fails: bool, status: int, heard: int) -> None:
    code, hooks = hear(posting(path), fails=fails)

    assert (code, len(hooks)) == (status, heard)


def test_a_hook_that_is_killed_has_not_ended() -> None:
    async def story(call: str, notebook: ObservationLog, desk: HookServer) -> int:
        host, port = call.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /web_0/drain/E1 HTTP/1.1\r\n\r\n")
        await notebook.until(lambda: len(notebook.hooks) == 1)
        writer.close()
        return 0

    _, (heard,) = hear(story, takes=timedelta(minutes=5))

    assert (heard.ended, heard.ok) == (None, False)


def test_marks_are_seen_once(tmp_path: Path) -> None:
    async def story(call: str, notebook: ObservationLog, desk: HookServer) -> int:
        (tmp_path / "drained-e1").touch()
        (tmp_path / "journal.json").touch()
        desk.survey("web_0", tmp_path)
        (tmp_path / "log").write_text("starting up\nrecovered e1\n")
        desk.survey("web_0", tmp_path)
        desk.survey("web_0", tmp_path)
        return 0

    _, heard = hear(story)

    assert [(one.phase, one.event) for one in heard] == [(Phase.DRAIN, E1), (Phase.RECOVER, E1)]


def test_a_handler_finds_the_same_in_its_command_line_and_in_its_environment(tmp_path: Path) -> None:
    place = HandlerEnvironment(machine="web_0", folder=tmp_path, call="http://127.0.0.1:1")

    filled = place.filled(("run", "--vm={vm}", "{work}/state", "{drain}", '{"json": {recover}}', "{call}"))

    assert filled == (
        "run",
        "--vm=web_0",
        f"{tmp_path}/work/state",
        f"{tmp_path}/drain",
        f'{{"json": {tmp_path}/recover}}',
        "http://127.0.0.1:1/web_0",
    )
    assert place.variables == {
        "FAIRWARNING_MACHINE": "web_0",
        "FAIRWARNING_WORK": f"{tmp_path}/work",
        "FAIRWARNING_DRAIN": f"{tmp_path}/drain",
        "FAIRWARNING_RECOVER": f"{tmp_path}/recover",
        "FAIRWARNING_CALL": "http://127.0.0.1:1/web_0",
    }
