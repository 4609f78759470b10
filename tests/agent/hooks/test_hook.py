"""The time limit of hooks, and the errors of invalid steps."""

from datetime import datetime, timedelta

import pytest

from fairwarning.agent.hooks import HOOKS, SettingsError, parse
from fairwarning.agent.hooks.hook import DEFAULT_LIMIT, time_left
from tests.agent.hooks.contexts import in_seconds, noon, prepare


@pytest.mark.parametrize(
    ("deadline", "seconds"),
    [
        pytest.param(in_seconds(900), 600, id="never longer than ten minutes"),
        pytest.param(in_seconds(65), 60, id="five seconds stay for the approval"),
        pytest.param(in_seconds(30), 25, id="a Preempt leaves 25 of its 30 seconds"),
        pytest.param(in_seconds(8), 6, id="of a very short notice a quarter stays"),
        pytest.param(in_seconds(0), 5, id="an event that is due gets what is quick"),
        pytest.param(in_seconds(-3600), 5, id="so does one that is long past"),
        pytest.param(None, 600, id="without a time there are ten minutes"),
    ],
)
@pytest.mark.rule("C-09")
def test_a_hook_ends_before_the_event_begins(deadline: datetime | None, seconds: int) -> None:
    left = time_left(prepare(deadline=deadline), noon)

    assert left == timedelta(seconds=seconds)


def test_a_hook_with_a_shorter_limit_keeps_to_it() -> None:
    assert time_left(prepare(), noon, timedelta(seconds=2)) == timedelta(seconds=2) < DEFAULT_LIMIT


@pytest.mark.parametrize(
    ("step", "field", "problem"),
    [
        pytest.param({}, "step", "must name exactly one", id="no hook"),
        pytest.param(
            {"log": "a", "exec": ["b"]}, "step", "must name exactly one", id="two hooks in one step"
        ),
        pytest.param({"bash": ["a"]}, "bash", "unknown hook (expected one of exec", id="an unknown hook"),
        pytest.param(
            {"exec": "drain now"},
            "exec",
            "must be a non-empty list of strings",
            id="a command line in one text",
        ),
        pytest.param({"exec": []}, "exec", "must be a non-empty list of strings", id="no words"),
        pytest.param(
            {"exec": ["a", 5]}, "exec[1]", "must be a non-empty string", id="a word that is a number"
        ),
        pytest.param(
            {"exec": ["a\0"]}, "exec[0]", "must be a non-empty string", id="a word no program can be given"
        ),
        pytest.param({"exec": {"timeout": "5s"}}, "exec", "needs exactly one of command", id="no command"),
        pytest.param(
            {"exec": {"command": ["a"], "timeout": "soon"}},
            "exec.timeout",
            "invalid duration 'soon'",
            id="a timeout that is none",
        ),
        pytest.param(
            {"exec": {"command": ["a"], "timeout": 5}},
            "exec.timeout",
            "must be a non-empty string",
            id="a bare number",
        ),
        pytest.param({"systemd": ["a"]}, "systemd", "must be a table", id="a list where a table belongs"),
        pytest.param({"systemd": {"restart": ["a"]}}, "systemd.restart", "unknown option", id="odd option"),
        pytest.param(
            {"systemd": {"stop": ["a"], "start": ["b"]}},
            "systemd",
            "needs exactly one of",
            id="stop and start",
        ),
        pytest.param(
            {"kubernetes": {"drain": False}},
            "kubernetes.drain",
            "must be a non-empty string",
            id="drain is off",
        ),
        pytest.param({"haproxy": {"drain": "web"}}, "haproxy.drain", "is not BACKEND/SERVER", id="no server"),
        pytest.param(
            {"haproxy": {"drain": "web/s1;shutdown"}},
            "haproxy.drain",
            "is not BACKEND/SERVER",
            id="two commands",
        ),
        pytest.param(
            {"haproxy": {"ready": "web/s1", "socket": "localhost"}},
            "haproxy.socket",
            "neither a path nor HOST:PORT",
            id="a socket without a port",
        ),
        pytest.param({"http": {"url": "ftp://a"}}, "http.url", "is not an http or https", id="not http"),
        pytest.param(
            {"http": {"url": "http://a:b"}}, "http.url", "is not an http or https", id="port is none"
        ),
        pytest.param(
            {"http": {"url": "http://a", "secret": "whsec_?"}},
            "http.secret",
            "must be whsec_",
            id="secret is none",
        ),
        pytest.param(
            {"http": {"url": "http://a", "secret": "whsec_YQ==", "secret_file": "f"}},
            "http",
            "not both",
            id="two secrets",
        ),
        pytest.param({"notify": {"required": True}}, "notify", "needs urls or config", id="no receivers"),
        pytest.param(
            {"notify": {"config": "f", "required": "yes"}}, "notify.required", "true or false", id="no switch"
        ),
        pytest.param({"log": ""}, "log", "must be a non-empty string", id="nothing to log"),
    ],
)
def test_an_invalid_step_is_refused_by_the_name_of_its_field(
    step: dict[str, object], field: str, problem: str
) -> None:
    with pytest.raises(SettingsError) as refusal:
        parse(step)

    assert refusal.value.field == field
    assert problem in refusal.value.problem


STEPS: dict[str, dict[str, object]] = {
    "exec": {"exec": ["/nonexistent/drain"]},
    "systemd": {"systemd": {"stop": ["nginx.service"]}},
    "kubernetes": {"kubernetes": {"drain": "node-1"}},
    "haproxy": {"haproxy": {"drain": "web/s1", "socket": "/nonexistent/admin.sock"}},
    "http": {"http": {"url": "http://127.0.0.1:9/hook"}},
    "notify": {"notify": {"urls": ["json://127.0.0.1:9"], "required": True}},
    "log": {"log": "draining"},
}
every_hook = pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in HOOKS])


@every_hook
def test_a_dry_run_describes_and_needs_nothing(name: str) -> None:
    hook = parse(STEPS[name], {"PATH": "/nonexistent"})

    outcome = hook.run(prepare(dry_run=True), None, noon)

    assert outcome.ok
    assert outcome.message == f"would {hook.describe()}"
    assert outcome.token is None


@every_hook
def test_a_hook_without_its_other_side_fails_instead_of_raising(name: str) -> None:
    hook = parse(STEPS[name], {"PATH": "/nonexistent"})

    outcome = hook.run(prepare(), None, noon)

    assert outcome.ok is (name == "log")
    assert outcome.message


@pytest.mark.parametrize(
    ("prepares", "recovers"),
    [
        pytest.param({"systemd": {"stop": ["a"]}}, {"systemd": {"start": ["a"]}}, id="systemd"),
        pytest.param({"kubernetes": {"drain": "n"}}, {"kubernetes": {"uncordon": "n"}}, id="kubernetes"),
        pytest.param({"haproxy": {"drain": "b/s"}}, {"haproxy": {"ready": "b/s"}}, id="haproxy"),
    ],
)
def test_a_step_and_the_one_that_undoes_it_have_the_same_name(
    prepares: dict[str, object], recovers: dict[str, object]
) -> None:
    assert parse(prepares).name == parse(recovers).name
