"""The agent's settings: a TOML file, read and checked as a whole.

[agent]            endpoint, machine, state, listen, poll, api_version, margin, freeze_threshold, pause,
                   coordination, takeover, check
[agent.peers]      the name of another machine = the address of its agent
[[rule]]           name, types, sources, min_duration, max_duration, resources, approve, tries,
                   prepare = [steps], recover = [steps]
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType

from fairwarning import __version__
from fairwarning.agent.coordination import CoordinationMode, comparable
from fairwarning.agent.discovery import base_address
from fairwarning.agent.hooks import DEFAULT_ENVIRONMENT, Hook, SettingsError, parse
from fairwarning.agent.hooks.options import Options, read_regular_file, text, words
from fairwarning.agent.plan import AgentPolicy
from fairwarning.agent.rules import Consent, Rule
from fairwarning.core.document.versions import NEWEST
from fairwarning.core.errors import InvalidError
from fairwarning.core.inputs import parse_duration
from fairwarning.formats.toml_text import parse_toml

DEFAULT_FILE = Path("/etc/fairwarning/agent.toml")
DEFAULT_STATE = Path("/var/lib/fairwarning-agent")

#: C-01: a slower poll can miss the 30 seconds of an eviction.
SLOWEST_POLL = timedelta(seconds=10)
#: All endpoints are tried within the time of one poll.
MAX_ENDPOINTS = 8
#: Hooks that only report; a rule with no other hooks does not drain the machine.
REPORTING_HOOKS = frozenset({"log", "notify"})

LARGEST_FILE = 1_000_000

_AGENT_KEYS = (
    "endpoint",
    "machine",
    "state",
    "listen",
    "poll",
    "api_version",
    "margin",
    "freeze_threshold",
    "pause",
    "coordination",
    "takeover",
    "check",
    "peers",
)
_RULE_KEYS = (
    "name",
    "types",
    "sources",
    "min_duration",
    "max_duration",
    "resources",
    "approve",
    "tries",
    "prepare",
    "recover",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The hooks of a rule, before and after an event."""

    prepare: tuple[Hook, ...] = ()
    recover: tuple[Hook, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The settings of an agent."""

    #: Nodes of one service, in the order in which they are tried; none if the endpoint is discovered.
    endpoints: tuple[str, ...] = ()
    machine: str | None = None
    state: Path = DEFAULT_STATE
    listen: tuple[str, int] | None = None
    poll: timedelta = timedelta(seconds=1)
    version: str = NEWEST
    policy: AgentPolicy = field(default_factory=AgentPolicy)
    steps: Mapping[str, Steps] = field(default_factory=lambda: MappingProxyType({}))
    check: tuple[str, ...] = ()
    peers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def steps_of(self, rule: str) -> Steps:
        """Return the hooks of a rule; default rules and removed rules have none."""
        return self.steps.get(rule, Steps())


def load(path: Path, environment: Mapping[str, str] = DEFAULT_ENVIRONMENT) -> AgentSettings:
    """Return the settings in a file.

    Raises:
        SettingsError: the file cannot be read, or is invalid.
    """
    try:
        content = parse_toml(read_regular_file(path, LARGEST_FILE))
    except OSError as problem:
        raise SettingsError(str(path), f"cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise SettingsError(str(path), str(problem)) from None
    return parse_settings(content, environment)


def parse_settings(
    content: Mapping[str, object], environment: Mapping[str, str] = DEFAULT_ENVIRONMENT
) -> AgentSettings:
    """Return the settings in the content of a file.

    Raises:
        SettingsError: the content is invalid; the message names the field.
    """
    for name in content:
        if name not in ("agent", "rule"):
            raise SettingsError(name, f"unknown table (version {__version__} knows [agent] and [[rule]])")
    table = content.get("agent", {})
    agent = Options("agent", table, _AGENT_KEYS)
    raw: Mapping[str, object] = table if isinstance(table, Mapping) else {}
    rules, steps = _rules(content.get("rule", []), environment)
    return AgentSettings(
        endpoints=_endpoints(agent, raw),
        machine=agent.text("machine"),
        state=Path(agent.text("state") or DEFAULT_STATE),
        listen=_listen(agent),
        poll=_poll(raw),
        version=agent.text("api_version") or NEWEST,
        policy=_policy(agent, raw, rules),
        steps=steps,
        check=agent.words("check"),
        peers=_peers(raw.get("peers", {})),
    )


def _policy(agent: Options, raw: Mapping[str, object], rules: tuple[Rule, ...]) -> AgentPolicy:
    defaults = AgentPolicy()
    return AgentPolicy(
        rules=rules,
        freeze_threshold=_whole_number("agent.freeze_threshold", raw, defaults.freeze_threshold),
        margin=_duration("agent.margin", raw, defaults.margin),
        pause=_duration("agent.pause", raw, defaults.pause),
        mode=CoordinationMode(
            _choice(
                "agent.coordination",
                agent.text("coordination"),
                tuple(CoordinationMode),
                CoordinationMode.OWN_ONLY,
            )
        ),
        takeover=_duration("agent.takeover", raw, defaults.takeover),
    )


def _endpoints(agent: Options, raw: Mapping[str, object]) -> tuple[str, ...]:
    if isinstance(raw.get("endpoint"), list):
        return addresses("agent.endpoint", agent.words("endpoint"))
    given = agent.text("endpoint")
    return () if given is None else (address("agent.endpoint", given),)


def addresses(where: str, given: Sequence[str]) -> tuple[str, ...]:
    """Return the endpoints of one service in their normal form.

    Raises:
        SettingsError: there are too many, one is invalid, or one is given twice.
    """
    if len(given) > MAX_ENDPOINTS:
        raise SettingsError(where, f"has {len(given)} addresses (at most {MAX_ENDPOINTS} are tried)")
    bases = tuple(address(f"{where}[{number}]", text) for number, text in enumerate(given))
    for number, base in enumerate(bases):
        if base in bases[:number]:
            raise SettingsError(f"{where}[{number}]", f"{base} is given twice")
    return bases


def address(where: str, given: str) -> str:
    """Return a base address in its normal form.

    Raises:
        SettingsError: the address is not plain http; the message names ``where``.
    """
    try:
        base = base_address(given)
    except InvalidError as refusal:
        raise SettingsError(where, refusal.problem) from None
    if not base.startswith("http://"):
        raise SettingsError(where, f"{given!r} must be plain http, like the endpoint of a machine")
    return base


def _listen(agent: Options) -> tuple[str, int] | None:
    given = agent.text("listen")
    if given is None:
        return None
    host, colon, port = given.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise SettingsError("agent.listen", f"invalid address {given!r} (expected e.g. 127.0.0.1:9169)")
    return host.strip("[]"), int(port)


def _poll(raw: Mapping[str, object]) -> timedelta:
    length = _duration("agent.poll", raw, timedelta(seconds=1))
    if not timedelta(seconds=1) <= length <= SLOWEST_POLL:
        raise SettingsError(
            "agent.poll", "must be from 1s to 10s: an eviction gives at most 30 seconds of notice"
        )
    return length


def _peers(given: object) -> dict[str, str]:
    if not isinstance(given, Mapping):
        raise SettingsError("agent.peers", "must be a table of names and addresses")
    return {
        comparable(str(name)): address(f"agent.peers.{name}", text(f"agent.peers.{name}", url))
        for name, url in given.items()
    }


def _rules(given: object, environment: Mapping[str, str]) -> tuple[tuple[Rule, ...], dict[str, Steps]]:
    if not isinstance(given, list):
        raise SettingsError("rule", "must be written as [[rule]]")
    rules: list[Rule] = []
    steps: dict[str, Steps] = {}
    for number, entry in enumerate(given, start=1):
        where = f"rule {number}"
        options = Options(where, entry, _RULE_KEYS)
        raw: Mapping[str, object] = entry if isinstance(entry, Mapping) else {}
        name = options.text("name") or f"rule-{number}"
        if name in steps:
            raise SettingsError(f"{where}.name", f"{name!r} is the name of an earlier rule")
        steps[name] = Steps(
            prepare=_steps(f"{where}.prepare", raw.get("prepare", []), environment),
            recover=_steps(f"{where}.recover", raw.get("recover", []), environment),
        )
        rules.append(_rule(where, name, options, raw, steps[name]))
    return tuple(rules), steps


def _rule(where: str, name: str, options: Options, raw: Mapping[str, object], steps: Steps) -> Rule:
    def folded(field: str) -> tuple[str, ...]:
        return tuple(word.casefold() for word in options.words(field))

    return Rule(
        name=name,
        types=frozenset(folded("types")),
        sources=frozenset(folded("sources")),
        min_duration=_seconds(f"{where}.min_duration", raw),
        max_duration=_seconds(f"{where}.max_duration", raw),
        resources=folded("resources"),
        approve=Consent(
            _choice(f"{where}.approve", options.text("approve"), tuple(Consent), Consent.AFTER_SUCCESS)
        ),
        drains=any(
            hook.name.partition(" ")[0] not in REPORTING_HOOKS for hook in (*steps.prepare, *steps.recover)
        ),
        tries=max(1, _whole_number(f"{where}.tries", raw, 1)),
    )


def _steps(where: str, given: object, environment: Mapping[str, str]) -> tuple[Hook, ...]:
    if not isinstance(given, list):
        raise SettingsError(where, "must be a list of steps like { exec = [...] }")
    hooks: list[Hook] = []
    for number, step in enumerate(given, start=1):
        if not isinstance(step, Mapping):
            raise SettingsError(f"{where} {number}", "must be a table like { exec = [...] }")
        try:
            hooks.append(parse(step, environment))
        except SettingsError as refusal:
            raise SettingsError(f"{where} {number}: {refusal.field}", refusal.problem) from None
    return tuple(hooks)


def _choice(where: str, given: str | None, known: tuple[str, ...], default: str) -> str:
    if given is None:
        return default
    if given not in known:
        raise SettingsError(where, f"{given!r} is not one of {', '.join(words(where, list(known)))}")
    return given


def _whole_number(where: str, raw: Mapping[str, object], default: int) -> int:
    value = raw.get(where.rpartition(".")[2], default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise SettingsError(where, "must be a whole number, zero or more")
    return value


def _seconds(where: str, raw: Mapping[str, object]) -> int | None:
    return _whole_number(where, raw, 0) if where.rpartition(".")[2] in raw else None


def _duration(where: str, raw: Mapping[str, object], default: timedelta) -> timedelta:
    """Return a duration: a string like 30s, or a whole number of seconds."""
    value = raw.get(where.rpartition(".")[2])
    if value is None:
        return default
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 86400:
        return timedelta(seconds=value)
    try:
        return parse_duration(text(where, value), where)
    except InvalidError as refusal:
        raise SettingsError(refusal.field, refusal.problem) from None
