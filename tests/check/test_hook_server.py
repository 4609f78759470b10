"""The hook server observes drains and recoveries, whichever way a handler reports them."""

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
from tests.check.observations import E1

Story = Callable[[str, ObservationLog, HookServer], Awaitable[int]]


def run_story(
    story: Story, *, fails: bool = False, takes: timedelta = timedelta(0)
) -> tuple[int, list[Hooked]]:
    """Return the result of a story and the hooks that were observed."""

    async def run() -> tuple[int, list[Hooked]]:
        log = ObservationLog(asyncio.get_running_loop().time())
        log.finish()
        hook_server = HookServer(log, lambda machine, phase: Behaviour(takes, fails))
        async with hook_server.open() as call:
            code = await story(call, log, hook_server)
        return code, list(log.hooks.values())

    return asyncio.run(run())


def running(folder: Path, phase: Phase, *words: str, event: str = "") -> Story:
    """Return a story: a handler on web_0 runs a hook."""

    async def story(call: str, log: ObservationLog, hook_server: HookServer) -> int:
        environment = HandlerEnvironment(machine="web_0", folder=folder / "web_0", hook_url=call)
        environment.create()
        program = environment.placeholders[phase]
        variables = {"FAIRWARNING_EVENT_ID": event}
        process = await asyncio.create_subprocess_exec(program, *words, env=variables)
        return await process.wait()

    return story


def posting(path: str, method: str = "POST") -> Story:
    """Return a story: a handler makes a call, and the result is its status."""

    async def story(call: str, log: ObservationLog, hook_server: HookServer) -> int:
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
def test_a_hook_gets_its_event(tmp_path: Path, words: tuple[str, ...], event: str) -> None:
    code, (observed,) = run_story(running(tmp_path, Phase.DRAIN, *words, event=event))

    assert code == 0
    assert (observed.machine, observed.phase, observed.event, observed.ok) == ("web_0", Phase.DRAIN, E1, True)
    assert observed.ended is not None


def test_a_hook_without_an_event_may_be_about_any(tmp_path: Path) -> None:
    _, (observed,) = run_story(running(tmp_path, Phase.RECOVER))

    assert (observed.phase, observed.event, observed.concerns(E1)) == (Phase.RECOVER, None, True)


def test_a_hook_fails_where_the_scenario_says_so(tmp_path: Path) -> None:
    code, (observed,) = run_story(running(tmp_path, Phase.DRAIN, "E1"), fails=True)

    assert (code, observed.ok) == (1, False)


@pytest.mark.parametrize(
    ("path", "fails", "status", "observed"),
    [
        pytest.param("/web_0/drain/E1", False, 200, 1, id="drained"),
        pytest.param("/web_0/drain/E1", True, 500, 1, id="not drained"),
        pytest.param("/web_0/dance/E1", False, 404, 0, id="something else"),
    ],
)
def test_a_call_is_answered_as_the_hook_ends(path: str, fails: bool, status: int, observed: int) -> None:
    code, hooks = run_story(posting(path), fails=fails)

    assert (code, len(hooks)) == (status, observed)


def test_a_hook_that_is_killed_has_not_ended() -> None:
    async def story(call: str, log: ObservationLog, hook_server: HookServer) -> int:
        host, port = call.removeprefix("http://").split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /web_0/drain/E1 HTTP/1.1\r\n\r\n")
        await log.wait_until(lambda: len(log.hooks) == 1)
        writer.close()
        return 0

    _, (observed,) = run_story(story, takes=timedelta(minutes=5))

    assert (observed.ended, observed.ok) == (None, False)


def test_markers_are_observed_once(tmp_path: Path) -> None:
    async def story(call: str, log: ObservationLog, hook_server: HookServer) -> int:
        (tmp_path / "drained-e1").touch()
        (tmp_path / "journal.json").touch()
        hook_server.scan_markers("web_0", tmp_path)
        (tmp_path / "log").write_text("starting up\nrecovered e1\n")
        hook_server.scan_markers("web_0", tmp_path)
        hook_server.scan_markers("web_0", tmp_path)
        return 0

    _, observed = run_story(story)

    assert [(hook.phase, hook.event) for hook in observed] == [(Phase.DRAIN, E1), (Phase.RECOVER, E1)]


def test_a_handler_finds_the_same_in_its_command_line_and_in_its_environment(tmp_path: Path) -> None:
    environment = HandlerEnvironment(machine="web_0", folder=tmp_path, hook_url="http://127.0.0.1:1")

    expanded = environment.expand(
        ("run", "--vm={vm}", "{work}/state", "{drain}", '{"json": {recover}}', "{call}")
    )

    assert expanded == (
        "run",
        "--vm=web_0",
        f"{tmp_path}/work/state",
        f"{tmp_path}/drain",
        f'{{"json": {tmp_path}/recover}}',
        "http://127.0.0.1:1/web_0",
    )
    assert environment.variables == {
        "FAIRWARNING_MACHINE": "web_0",
        "FAIRWARNING_WORK": f"{tmp_path}/work",
        "FAIRWARNING_DRAIN": f"{tmp_path}/drain",
        "FAIRWARNING_RECOVER": f"{tmp_path}/recover",
        "FAIRWARNING_CALL": "http://127.0.0.1:1/web_0",
    }
