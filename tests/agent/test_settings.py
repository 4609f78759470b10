"""The agent's settings: how they are read, and the errors of invalid ones."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from fairwarning.agent.coordination import CoordinationMode
from fairwarning.agent.hooks import SettingsError
from fairwarning.agent.rules import Consent
from fairwarning.agent.settings import DEFAULT_STATE, AgentSettings, Steps, load

ROOT = Path(__file__).parents[2]

SMALLEST = """
[agent]

[[rule]]
types = ["Reboot", "Redeploy"]
prepare = [{ exec = ["/usr/local/bin/drain"] }]
recover = [{ exec = ["/usr/local/bin/undrain"] }]
approve = "after-success"
"""

EVERYTHING = """
[agent]
endpoint = "http://127.0.0.1:8101/"
machine = "web_0"
state = "/var/lib/elsewhere"
listen = "127.0.0.1:9169"
poll = "2s"
api_version = "2019-08-01"
margin = 10
freeze_threshold = 20
pause = "1m"
coordination = "peers"
takeover = "15s"
check = ["/usr/local/bin/others-are-healthy"]

[agent.peers]
WEB_1 = "http://10.0.0.5:9169"

[[rule]]
name = "tell"
types = ["Freeze"]
sources = ["Platform"]
min_duration = 9
max_duration = 60
resources = ["Web_*"]
approve = "never"
tries = 3
prepare = [{ log = "frozen soon" }]
"""


def read(folder: Path, text: str) -> AgentSettings:
    path = folder / "agent.toml"
    path.write_text(text)
    return load(path)


def test_the_smallest_file_works(tmp_path: Path) -> None:
    settings = read(tmp_path, SMALLEST)

    (rule,) = settings.policy.rules
    assert rule.types == frozenset({"reboot", "redeploy"})
    assert (rule.approve, rule.drains) == (Consent.AFTER_SUCCESS, True)
    assert [hook.describe() for hook in settings.steps_of(rule.name).prepare] == ["run /usr/local/bin/drain"]
    assert settings.state == DEFAULT_STATE
    assert settings.poll == timedelta(seconds=1)


def test_every_setting_is_read(tmp_path: Path) -> None:
    settings = read(tmp_path, EVERYTHING)

    (rule,) = settings.policy.rules
    assert settings.endpoints == ("http://127.0.0.1:8101",)
    assert settings.machine == "web_0"
    assert settings.state == Path("/var/lib/elsewhere")
    assert settings.listen == ("127.0.0.1", 9169)
    assert settings.poll == timedelta(seconds=2)
    assert settings.version == "2019-08-01"
    assert settings.policy.margin == timedelta(seconds=10)
    assert settings.policy.freeze_threshold == 20
    assert settings.policy.pause == timedelta(minutes=1)
    assert settings.policy.mode is CoordinationMode.PEERS
    assert settings.policy.takeover == timedelta(seconds=15)
    assert settings.check == ("/usr/local/bin/others-are-healthy",)
    assert settings.peers == {"web_1": "http://10.0.0.5:9169"}
    assert (rule.name, rule.min_duration, rule.max_duration, rule.tries) == ("tell", 9, 60, 3)
    assert (rule.resources, rule.drains) == (("web_*",), False)


def test_an_empty_file_watches(tmp_path: Path) -> None:
    settings = read(tmp_path, "")

    assert settings.policy.rules == ()
    assert settings.steps_of("watch") == Steps()


@pytest.mark.rule("C-01")
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("[agent", "is not TOML", id="not TOML"),
        pytest.param("[agnet]", "agnet: unknown table", id="an unknown table"),
        pytest.param("[agent]\npol = 1", "agent.pol: unknown option", id="an unknown field"),
        pytest.param("agent = 1", "agent: must be a table", id="no table"),
        pytest.param(
            "[agent]\npoll = '11s'", "agent.poll: must be from 1s to 10s", id="too slow for evictions"
        ),
        pytest.param("[agent]\npoll = '0s'", "agent.poll: must be from 1s to 10s", id="too fast"),
        pytest.param("[agent]\npoll = 'soon'", "agent.poll: invalid duration 'soon'", id="no duration"),
        pytest.param(
            "[agent]\nmargin = -1", "agent.margin: must be a non-empty string", id="less than nothing"
        ),
        pytest.param(
            "[agent]\nendpoint = 'ftp://x'", "agent.endpoint: 'ftp://x' is not an http address", id="no http"
        ),
        pytest.param(
            "[agent]\nendpoint = 'https://x'", "agent.endpoint: 'https://x' must be plain", id="https"
        ),
        pytest.param("[agent]\nendpoint = []", "agent.endpoint: must be a non-empty list", id="no endpoint"),
        pytest.param("[agent]\nendpoint = 1", "agent.endpoint: must be a non-empty string", id="a number"),
        pytest.param(
            "[agent]\nendpoint = ['a', 'ftp://x']", r"agent.endpoint\[1\]: 'ftp://x' is not", id="one no http"
        ),
        pytest.param(
            "[agent]\nendpoint = ['a:80', 'http://a:80/']",
            r"agent.endpoint\[1\]: http://a:80 is given twice",
            id="an endpoint twice",
        ),
        pytest.param(
            f"[agent]\nendpoint = {[f'a{number}' for number in range(9)]}",
            r"agent.endpoint: has 9 addresses \(at most 8",
            id="too many endpoints",
        ),
        pytest.param("[agent]\nlisten = 'x'", "agent.listen: invalid address 'x'", id="no port"),
        pytest.param(
            "[agent]\ncoordination = 'x'", "agent.coordination: 'x' is not one of own-only", id="mode"
        ),
        pytest.param("[agent]\npeers = 1", "agent.peers: must be a table", id="peers"),
        pytest.param("[agent]\nfreeze_threshold = 1.5", "agent.freeze_threshold: must be a whole", id="half"),
        pytest.param("rule = 1", r"rule: must be written as \[\[rule\]\]", id="rule is no list"),
        pytest.param("[[rule]]\ntype = ['Reboot']", "rule 1.type: unknown option", id="a typing error"),
        pytest.param("[[rule]]\napprove = 'maybe'", "rule 1.approve: 'maybe' is not one of", id="consent"),
        pytest.param("[[rule]]\nprepare = 'x'", "rule 1.prepare: must be a list", id="steps are a list"),
        pytest.param(
            "[[rule]]\nprepare = ['x']", "rule 1.prepare 1: must be a table", id="a step is a table"
        ),
        pytest.param(
            "[[rule]]\nprepare = [{ x = 1 }]", "rule 1.prepare 1: x: unknown hook", id="no such hook"
        ),
        pytest.param("[[rule]]\nname='a'\n[[rule]]\nname='a'", "rule 2.name: 'a' is the name", id="twice"),
    ],
)
def test_an_invalid_file_is_refused_by_field(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(SettingsError, match=problem):
        read(tmp_path, text)


@pytest.mark.parametrize("given", ["'10.0.0.4:8101'", "['10.0.0.4:8101']"], ids=["a text", "a list of one"])
def test_one_endpoint_is_a_text_or_a_list_of_one(tmp_path: Path, given: str) -> None:
    assert read(tmp_path, f"[agent]\nendpoint = {given}").endpoints == ("http://10.0.0.4:8101",)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read: No such file"):
        load(tmp_path / "none.toml")


def test_the_example_is_true() -> None:
    settings = load(ROOT / "examples" / "agent.toml")

    assert len(settings.policy.rules) >= 3


DOTS, QUOTED = " . ", r'"a \" b"'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("x = " + "[" * 50_000, r"nests too deeply \(at line 1\)", id="nested arrays"),
        pytest.param("x = " + "{a=" * 50_000, "nests too deeply", id="nested tables"),
        pytest.param("x = " + "9" * 50_000, "has a number that is too long", id="a huge number"),
        pytest.param(
            f"{DOTS.join('a' * 50_000)} = 1",
            "has a key of more than 16 parts",
            id="a long key",
        ),
        pytest.param(
            f"[{DOTS.join('a' * 50_000)}]",
            "has a key of more than 16 parts",
            id="a long table",
        ),
        pytest.param(
            f"{DOTS.join([QUOTED] * 50_000)} = 1", "has a key of more than 16 parts", id="quoted parts"
        ),
        pytest.param(f"x = {QUOTED[:-1] * 100_000}", "is not TOML", id="quotes without an end"),
        pytest.param("a" * 1_000_001, "cannot be read: larger than 1000000 bytes", id="a huge file"),
        pytest.param("x = '" + "a" * 999_000, "is not TOML", id="a text without an end"),
        pytest.param("\udcff", "is not text in UTF-8", id="no text"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused_at_once(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "agent.toml"
    path.write_bytes(text.encode(errors="surrogateescape"))

    with pytest.raises(SettingsError, match=problem) as refusal:
        load(path)

    assert "\n" not in str(refusal.value)


def test_a_text_with_many_dots_is_no_key(tmp_path: Path) -> None:
    name = f"{'.'.join('0123456789abcdef' * 2)}.ip6.arpa"

    assert read(tmp_path, f"# {name}\n[agent]\nmachine = '{name}'").machine == name


def test_many_texts_with_dots_are_no_key(tmp_path: Path) -> None:
    addresses = ", ".join(f'web_{number} = "http://10.0.0.{number}:9169"' for number in range(100))

    assert len(read(tmp_path, f"[agent]\npeers = {{ {addresses} }}").peers) == 100


def test_a_pipe_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agent.toml")

    with pytest.raises(SettingsError, match="cannot be read: not a regular file"):
        load(tmp_path / "agent.toml")


def test_a_device_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="cannot be read: not a regular file"):
        load(Path("/dev/zero"))
