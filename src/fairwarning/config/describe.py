"""Says in plain words what the file of ``fairwarning serve`` means."""

from collections.abc import Iterator

from fairwarning.config import PROGRAM, ServeSettings, Settings, loopback
from fairwarning.config.serve_settings import LoadedFile
from fairwarning.core.model import ScopeKind
from fairwarning.core.policy import OverdueLimits
from fairwarning.formats import durations
from fairwarning.formats.counts import format_count

_DRIVERS = {
    "external": f"your own tools act on machines, and report with: {PROGRAM} complete",
    "simulated": "nothing acts on machines: impacts are simulated, and last a few seconds (a rehearsal)",
}


def describe(loaded: LoadedFile) -> Iterator[tuple[str, str]]:
    """Yield topics, and what the file says about each."""
    settings, file = loaded.settings, loaded.file
    serve = settings.serve
    assert serve is not None
    yield "node", serve.node
    yield "data", _data(settings, serve)
    yield "operator API", _operator(settings, serve, bool(file.operator.token_file))
    yield "management API", _management(settings, serve)
    if serve.operator_tls or settings.arm is not None:
        yield "certificates", _certificates(serve)
    yield "metadata API", _metadata(settings, serve)
    yield "machines", _machines(serve)
    yield "driver", f"{settings.driver}: {_DRIVERS[settings.driver]}"
    if settings.driver == "external":
        yield "overdue", _overdue(settings.overdue)
    yield "time zone", f"{settings.zone}, for instants that operators write without an offset"
    yield "history", _history(settings)
    yield "log", f"lines of the level {file.log.level} and above, on stderr, as {file.log.format}"


def _data(settings: Settings, serve: ServeSettings) -> str:
    if serve.dsn is None:
        return f"SQLite in {settings.data}, for this node alone"
    start = "a start brings an older schema up to date" if serve.migrate else "a start changes no schema"
    silence = f"guests get 503 after {durations.for_people(settings.stale_after)} without news from it"
    return f"PostgreSQL, shared by all nodes with this database; {start}; {silence}"


def _operator(settings: Settings, serve: ServeSettings, has_token: bool) -> str:
    host, port = settings.operator_address
    url = _url("https" if serve.operator_tls else "http", host, port)
    plain = ", without TLS" if not serve.operator_tls and not loopback(host) else ""
    return f"{url}{plain}, with the console; {_callers(host, has_token)}"


def _management(settings: Settings, serve: ServeSettings) -> str:
    if settings.arm is None:
        return "none"
    host, port = settings.arm
    return f"{_url('https', host, port)}; {_callers(host, serve.management_token is not None)}"


def _callers(host: str, has_token: bool) -> str:
    if has_token:
        return "callers need the token"
    return f"any user of this host may call, without a token ({host} is loopback)"


def _certificates(serve: ServeSettings) -> str:
    if serve.tls is None:
        return "generated, in the directory of the data"
    if serve.tls.certificate is not None:
        return f"{serve.tls.certificate}, with the key in {serve.tls.key}"
    return f"generated, with an authority in {serve.tls.directory}"


def _metadata(settings: Settings, serve: ServeSettings) -> str:
    ways = [_url("http", host, port) for host, port in settings.listen]
    if ways:
        ways[-1] += f", for {format_count(len(set(serve.guests.values())), 'guest')} known by source address"
    if settings.sockets is not None:
        ways.append(f"a socket for each machine in {settings.sockets}")
    return "; ".join(ways) or "none: no guest can poll this node"


def _machines(serve: ServeSettings) -> str:
    machines = sum(len(scope.machines) for scope in serve.inventory)
    sets = {scope.facts.set_id for scope in serve.inventory if scope.facts.kind is not ScopeKind.STANDALONE}
    alone = sum(scope.facts.kind is ScopeKind.STANDALONE for scope in serve.inventory)
    total, in_sets = format_count(machines, "machine"), format_count(len(sets), "set")
    version = f"inventory {serve.inventory_version}"
    limits = [f"{budget.most} of each {budget.group or budget.each}" for budget in serve.budgets]
    down = f"; down at once: at most {', '.join(limits)}" if limits else ""
    return f"{total}: {alone} standalone, {machines - alone} in {in_sets}; {version}{down}"


def _overdue(limits: OverdueLimits) -> str:
    others = "".join(
        f", of {cause} {durations.for_people(limit)}" for cause, limit in limits.by_cause.items()
    )
    return f"impacts without a report for {durations.for_people(limits.default)}{others}"


def _history(settings: Settings) -> str:
    retention = settings.retention
    limits = []
    if retention is not None and retention.age is not None:
        limits.append(f"for {durations.for_people(retention.age)}")
    if retention is not None and retention.size is not None:
        limits.append(f"while all data has less than {retention.size / 10**9:g} GB")
    return f"kept {' and '.join(limits) or 'for good'}"


def _url(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
