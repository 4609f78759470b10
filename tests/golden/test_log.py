"""The loggers, levels and fields of all log lines, and both formats: people search and alert by them."""

import ast
import logging
from collections.abc import Iterator
from datetime import timedelta
from itertools import count, groupby
from pathlib import Path

import fairwarning
from fairwarning.core.blueprint import Blueprint
from fairwarning.core.history import ActionNote, CommandRefused, OperatorAction
from fairwarning.core.model import ScopeKind
from fairwarning.drivers.simulated import Mishap
from fairwarning.logs.follow import log
from fairwarning.logs.journal import KnownFleet, lines_of
from fairwarning.logs.output import LogJsonFormatter, LogTextFormatter
from tests.fleet_harness import FleetHarness, run
from tests.golden.comparison import Golden

PACKAGE = Path(fairwarning.__file__).parent
LEVELS = frozenset({"debug", "info", "warning", "error", "exception", "critical"})


def log_calls(source: Path) -> Iterator[str]:
    """Yield the logger, the level and the message of every log call in a file."""
    logger = ""
    for node in ast.walk(ast.parse(source.read_text())):
        match node:
            case ast.Assign([ast.Name("log")], ast.Call(args=[ast.Constant(str(name))])):
                logger = name.removeprefix("fairwarning.")
            case ast.Call(func=ast.Attribute(value=ast.Name("log"), attr=level), args=[message, *_]) if (
                level in LEVELS
            ):
                yield f"{logger} {level}: {message_text(message)}"
            case ast.Call(
                func=ast.Attribute(value=ast.Name("log"), attr="log"),
                args=[_, ast.Call(func=ast.Name("LogMessage")) as message],
            ):
                yield f"{logger}: {message_text(message)}"
            case _:
                pass


def message_text(message: ast.expr) -> str:
    """Return a text, or the event and the fields of a ``LogMessage``."""
    match message:
        case ast.Constant(str(text)):
            return text
        case ast.Call(func=ast.Name("LogMessage"), args=[ast.Constant(str(event))], keywords=fields):
            return " ".join([event, *(str(field.arg) for field in fields)])
        case _:
            return ast.unparse(message)


def test_every_log_line(golden: Golden) -> None:
    lines = {line for source in PACKAGE.rglob("*.py") for line in log_calls(source)}

    golden("log", {"lines": "\n".join(sorted(lines))})


def scene() -> FleetHarness:
    """Return a fleet to which something of each kind has happened."""
    fleet = FleetHarness(Blueprint(name="web", count=3))
    fleet.make(Blueprint(name="shop", count=4, zones=("1", "2"), terminate_notice=timedelta(minutes=5)))
    fleet.make(Blueprint(name="batch", kind=ScopeKind.STANDALONE, spot=True))
    fleet.break_machine("web_0", Mishap.FAILS)
    (restart,) = fleet.cause("restart", "web_0")
    fleet.approve(restart, by="web_1")
    fleet.advance("1m")
    (freeze,) = fleet.cause("freeze", "web_1")
    fleet.cancel(freeze)
    fleet.cause("evict", "batch")
    fleet.advance("1m")
    reason = "web_0 is not a Spot machine"
    web_0 = fleet.ref("web_0")
    refused = CommandRefused(scope=web_0.scope, asked="evict", reason=reason, by="ann", machines=(web_0,))
    run(fleet.engine.remark(refused))
    fleet.grow("web", 2)
    fleet.stop("web_3")
    fleet.remove("shop")
    hostile = "\x1b[31mred\x1b[0m\nünd \u202eso on"
    run(fleet.engine.remark(ActionNote(deed=OperatorAction.SPEED, detail=hostile, by='ann "the boss"')))
    return fleet


def test_the_log_as_text_and_as_json(golden: Golden) -> None:
    records, numbers = [], count(1)
    entries = [
        entry._replace(request=f"request{number}")
        for _, lines in groupby(scene().journal(), key=lambda entry: entry.request)
        for number in [next(numbers)]
        for entry in lines
    ]
    for line in lines_of(entries, KnownFleet({})):
        record = log.makeRecord(log.name, line.level, "", 0, line.message, (), None)
        record.created = line.at.timestamp()
        records.append(record)
    warning = logging.getLogger("uvicorn.error")
    records.append(warning.makeRecord(warning.name, logging.WARNING, "", 0, "Invalid %s", ("request",), None))
    records[-1].created = records[0].created

    golden(
        "log-formats",
        {
            "text": "\n".join(map(LogTextFormatter().format, records)),
            "json": "\n".join(map(LogJsonFormatter().format, records)),
        },
    )
